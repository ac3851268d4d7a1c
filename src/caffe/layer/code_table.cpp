#include "caffe/layer/code_table.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "caffe/quant/codes.hpp"

namespace caffe {
CodeTable::CodeTable(std::function<double(double)> function, DataType type, Device* device,
                     const std::string& name, std::unique_ptr<Kernel> kernel)
    : function_(std::move(function)), type_(type), kernel_(std::move(kernel)) {
  numbers_ = MakeBlob(type, device, {type.info().code_max + 1}, name);
}

void CodeTable::Build() {
  std::vector<double> values;
  for (int code = 0; code <= type_.info().code_max; ++code) {
    const double value = function_(x_.scale * (code - x_.zero));
    values.push_back(std::isnan(value) ? 0 : value);
  }
  EncodeCodes(values.data(), numbers_->count(), y_, type_, numbers_->mutable_host_data());
  numbers_->device_data();  // uploaded now, not in the forward that follows
}

void CodeTable::Launch(const BlobBase& x, BlobBase* y) const {
  // Zero points are in the table: the kernel reads and writes whole codes.
  kernel_->Launch(x.count(),
                  {x.count(), x.device_data(), numbers_->device_data(), y->mutable_device_data()});
}

}  // namespace caffe
