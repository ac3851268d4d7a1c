#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/broadcast.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

// y = scale[c] x + shift[c] between codes of one quantized type, in integers: for channel c
//   y - z_y = round(((x - z_x) multiplier[c] + addend[c]) / 2^n[c])
// with one rounding, half away from zero. multiplier / 2^n is the nearest to scale s_x / s_y, addend
// / 2^n to shift / s_y. n is such that the larger one of |multiplier| and |addend| / 2^16 is in
// [2^30, 2^31), but at most 62; n < 0 means that every sum but 0 saturates.
class CodeAffine final : public Derived {
 public:
  using Function = std::function<void(std::vector<double>* scale, std::vector<double>* shift)>;
  CodeAffine() = default;
  // `function` computes `channels` scales and shifts from the sources.
  CodeAffine(std::vector<const BlobBase*> sources, Function function, int64_t channels,
             DataType type, Device* device, const std::string& name);
  // Call this before Refresh, which throws if a scale or shift is infinite or NaN.
  void SetRanges(const QuantRange& x, const QuantRange& y);
  // Of the numbers of the channels; 0 if there are none.
  int64_t bytes() const { return numbers_ ? numbers_->bytes() : 0; }
  // y may be x. With `relu`, values below 0 become 0 after the rounding.
  void Launch(const Broadcast& shape, KernelArgument x, KernelArgument y, bool relu = false) const;

 private:
  void Build() override;

  Function function_;
  int64_t channels_ = 0;
  std::string name_;
  std::shared_ptr<BlobBase> numbers_;  // bytes of addends, multipliers and shifts
  std::unique_ptr<Kernel> rows_, columns_;
  QuantRange x_, y_;
};

// y = x if x > 0, else slope[c] x between codes of one quantized type: (x - z_x) times s_x / s_y or
// slope s_x / s_y, with one rounding, half away from zero.
class CodeSlopes final : public Derived {
 public:
  CodeSlopes() = default;
  CodeSlopes(const BlobBase* slopes, DataType type, Device* device, const std::string& name);
  // Call this before Refresh, which throws if a slope is infinite or NaN.
  void SetRanges(const QuantRange& x, const QuantRange& y);
  // Of the numbers of the channels; 0 if there are none.
  int64_t bytes() const { return numbers_ ? numbers_->bytes() : 0; }
  // y may be x.
  void Launch(const Broadcast& shape, KernelArgument x, KernelArgument y) const;

 private:
  void Build() override;

  const BlobBase* slopes_ = nullptr;
  std::string name_;
  std::shared_ptr<BlobBase> numbers_;  // bytes of multipliers and shifts
  std::unique_ptr<Kernel> rows_, columns_;
  double factor_ = 1;
};

}  // namespace caffe
