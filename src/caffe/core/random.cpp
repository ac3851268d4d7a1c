#include "caffe/core/random.hpp"

namespace caffe {
namespace {

using i32 = int32_t;
using u32 = uint32_t;
using u64 = uint64_t;
#define DEVICE_FN inline
#include "../../../kernels/math/random.h"
#undef DEVICE_FN

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t counter, uint64_t seed) {
  const Random4 random = philox(counter, seed);
  return {random.v0, random.v1, random.v2, random.v3};
}

}  // namespace caffe
