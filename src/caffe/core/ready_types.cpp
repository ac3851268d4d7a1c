#include "caffe/core/ready_types.hpp"

#include <bit>

#include "caffe/core/value_table.hpp"

namespace caffe {
namespace {

using i32 = int32_t;
using u32 = uint32_t;
using u64 = uint64_t;
#define DEVICE_FN inline
float as_f32(u32 bits) { return std::bit_cast<float>(bits); }
u32 as_u32(float value) { return std::bit_cast<u32>(value); }
#include "../../../kernels/types/posit.h"
#include "../../../kernels/types/small_float.h"
#undef DEVICE_FN

// The same text for devices and for the table of the CPU.
#define READY_TYPE(name, bits, to, from)                            \
  MakeType(                                                         \
      name, bits, #to, #from, [](u32 code) -> float { return to; }, \
      [](float v) -> u32 { return from; })

TypeInfo MakeType(const char* name, int bits, const char* to, const char* from,
                  float (*to_float)(u32), u32 (*from_float)(float)) {
  TypeInfo info;
  info.name = name;
  info.kind = TypeKind::kCustom;
  info.bits = bits;
  info.to_float = to;
  info.from_float = from;
  info.make_table = [=] {
    std::vector<float> values;
    for (u32 code = 0; code < 1u << bits; ++code) values.push_back(to_float(code));
    return std::make_unique<ValueTable>(name, bits, std::move(values),
                                        [=](const float* floats, uint32_t* codes, size_t count) {
                                          for (size_t i = 0; i < count; ++i)
                                            codes[i] = from_float(floats[i]);
                                        });
  };
  return info;
}

}  // namespace

std::vector<TypeInfo> ReadyTypes() {
  return {
      READY_TYPE("fp8_e4m3", 8, small_float_value(code, 4, 3, 0), small_float_code(v, 4, 3, 0)),
      READY_TYPE("fp8_e5m2", 8, small_float_value(code, 5, 2, 1), small_float_code(v, 5, 2, 1)),
      READY_TYPE("posit8", 8, posit_value(code, 8, 2), posit_code(v, 8, 2)),
      READY_TYPE("float10", 10, small_float_value(code, 5, 4, 1), small_float_code(v, 5, 4, 1)),
  };
}

}  // namespace caffe
