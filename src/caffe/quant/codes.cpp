#include "caffe/quant/codes.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

namespace caffe {

template <class Value>
void DecodeCodes(const void* codes, int64_t count, const QuantRange& range, DataType type,
                 Value* values) {
  if (type.is_scaled()) {
    ConvertElements(type, codes, DataTypeOf<Value>::value, values, count);
    for (int64_t i = 0; i < count; ++i) values[i] *= static_cast<Value>(range.scale);
    return;
  }
  WithCodes(type, codes, [&](const auto* from) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<Value>(range.scale * (from[i] - range.zero));
    }
  });
}

template <class Value>
int64_t EncodeCodes(const Value* values, int64_t count, const QuantRange& range, DataType type,
                    void* codes, int lowest) {
  if (type.is_scaled()) {
    std::vector<double> scaled(values, values + count);
    for (double& value : scaled) value /= range.scale;
    ConvertElements(kDouble, scaled.data(), type, codes, count);
    return 0;
  }
  const double least = lowest - range.zero, most = type.info().code_max - range.zero;
  const auto encode = [&](auto* to) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double steps = std::round(static_cast<double>(values[i]) / range.scale);
      const auto step = static_cast<int32_t>(std::clamp(steps, least, most));
      to[i] = static_cast<std::remove_pointer_t<decltype(to)>>(step + range.zero);
      sum += step;
    }
    return sum;
  };
  return type.bytes() == 1 ? encode(static_cast<uint8_t*>(codes))
                           : encode(static_cast<uint16_t*>(codes));
}

template void DecodeCodes(const void*, int64_t, const QuantRange&, DataType, float*);
template void DecodeCodes(const void*, int64_t, const QuantRange&, DataType, double*);
template int64_t EncodeCodes(const float*, int64_t, const QuantRange&, DataType, void*, int);
template int64_t EncodeCodes(const double*, int64_t, const QuantRange&, DataType, void*, int);

}  // namespace caffe
