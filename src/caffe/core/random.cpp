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

uint64_t SeedOfPart(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace caffe
