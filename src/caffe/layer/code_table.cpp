#include "caffe/layer/code_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace caffe {
namespace {

template <class Code>
void Fill(const std::function<double(double)>& function, const QuantRange& x, const QuantRange& y,
          int codes, Code* table) {
  const double low = -y.zero, high = codes - 1 - y.zero;
  for (int code = 0; code < codes; ++code) {
    const double value = function(x.scale * (code - x.zero)) / y.scale;
    const double bounded = std::isnan(value) ? 0 : std::clamp(value, low, high);
    table[code] = static_cast<Code>(std::llround(bounded) + y.zero);
  }
}

}  // namespace

CodeTable::CodeTable(std::function<double(double)> function, DataType type, Device* device,
                     const std::string& name, std::unique_ptr<Kernel> kernel)
    : function_(std::move(function)), type_(type), kernel_(std::move(kernel)) {
  table_ = MakeBlob(type, device, {type.info().code_max + 1}, name);
}

void CodeTable::SetRanges(const QuantRange& x, const QuantRange& y) {
  x_ = x;
  y_ = y;
  const double key[] = {x.scale, static_cast<double>(x.zero), y.scale, static_cast<double>(y.zero)};
  SetKey({reinterpret_cast<const char*>(key), sizeof(key)});
}

void CodeTable::Build() {
  const int codes = type_.info().code_max + 1;
  void* table = table_->mutable_host_data();
  if (type_ == kQuant8) {
    Fill(function_, x_, y_, codes, static_cast<uint8_t*>(table));
  } else {
    Fill(function_, x_, y_, codes, static_cast<uint16_t*>(table));
  }
  table_->device_data();  // uploaded now, not in the forward that follows
}

void CodeTable::Launch(const BlobBase& x, BlobBase* y) const {
  // Zero points are in the table: the kernel reads and writes whole codes.
  kernel_->Launch(x.count(),
                  {x.count(), x.device_data(), table_->device_data(), y->mutable_device_data()});
}

}  // namespace caffe
