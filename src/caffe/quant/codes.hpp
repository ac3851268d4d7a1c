#pragma once

#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/core/requant.hpp"

namespace caffe {

// Calls a function with codes of a quantized type as uint8_t or uint16_t.
template <class Function>
auto WithCodes(DataType type, const void* codes, const Function& function) {
  return type.bytes() == 1 ? function(static_cast<const uint8_t*>(codes))
                           : function(static_cast<const uint16_t*>(codes));
}

// The real values of codes of a type with DataType::has_range, in float or double.
template <class Value>
void DecodeCodes(const void* codes, int64_t count, const QuantRange& range, DataType type,
                 Value* values);
// Rounds real values to codes. Those of a quantized type are at least `lowest`, and halves are
// rounded away from zero; returns the sum of code - zero point. A scaled type rounds as it always
// does; returns 0.
template <class Value>
int64_t EncodeCodes(const Value* values, int64_t count, const QuantRange& range, DataType type,
                    void* codes, int lowest = 0);

}  // namespace caffe
