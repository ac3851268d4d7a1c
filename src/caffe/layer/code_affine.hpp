#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/broadcast.hpp"
#include "caffe/layer/coded_layer.hpp"

namespace caffe {

// y = scale[c] x + shift[c] between codes of one quantized type, in integers: for channel c
//   y - z_y = round(((x - z_x) multiplier[c] + addend[c]) / 2^n[c])
// with one rounding, half away from zero. multiplier / 2^n is the nearest to scale s_x / s_y,
// addend / 2^n to shift / s_y. n is such that the larger one of |multiplier| and |addend| / 2^16 is
// in [2^30, 2^31), but at most 62; n < 0 means that every sum but 0 saturates.
class CodeAffine final : public CodedLayer::Codes {
 public:
  using Function = std::function<void(std::vector<double>* scale, std::vector<double>* shift)>;
  CodeAffine() = default;
  // `function` computes `channels` scales and shifts from the sources. Refresh throws if one is
  // infinite or NaN.
  CodeAffine(std::vector<const BlobBase*> sources, Function function, int64_t channels,
             DataType type, Device* device, const std::string& name);
  // y may be x. With `relu`, values below 0 become 0 after the rounding.
  void Launch(const Broadcast& shape, KernelArgument x, KernelArgument y, bool relu = false) const;

 private:
  void Build() override;

  Function function_;
  int64_t channels_ = 0;
  std::string name_;
  std::unique_ptr<Kernel> rows_, columns_;
};

// y = x if x > 0, else slope[c] x between codes of one quantized type: (x - z_x) times s_x / s_y or
// slope s_x / s_y, with one rounding, half away from zero.
class CodeSlopes final : public CodedLayer::Codes {
 public:
  CodeSlopes() = default;
  // Refresh throws if a slope is infinite or NaN.
  CodeSlopes(const BlobBase* slopes, DataType type, Device* device, const std::string& name);
  // y may be x.
  void Launch(const Broadcast& shape, KernelArgument x, KernelArgument y) const;

 private:
  void Build() override;

  const BlobBase* slopes_ = nullptr;
  std::string name_;
  std::unique_ptr<Kernel> rows_, columns_;
};

}  // namespace caffe
