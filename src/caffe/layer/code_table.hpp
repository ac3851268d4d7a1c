#pragma once

#include <functional>
#include <memory>
#include <string>

#include "caffe/device/kernel.hpp"
#include "caffe/layer/coded_layer.hpp"

namespace caffe {

// An element-wise function between codes of one quantized type, as a table: for each code x
//   y = clamp(round(f(s_x (x - z_x)) / s_y) + z_y)
// computed in double on the host, with one rounding, half away from zero. NaN gives z_y. The tables
// have 256 entries for quant8, 65,536 for quant16.
class CodeTable final : public CodedLayer::Codes {
 public:
  CodeTable() = default;
  // `kernel` is look_up of neuron/look_up. `name` is that of the table's memory.
  CodeTable(std::function<double(double)> function, DataType type, Device* device,
            const std::string& name, std::unique_ptr<Kernel> kernel);
  // y may be x.
  void Launch(const BlobBase& x, BlobBase* y) const;

 private:
  void Build() override;

  std::function<double(double)> function_;
  DataType type_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
