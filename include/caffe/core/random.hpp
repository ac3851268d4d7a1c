#pragma once

#include <array>
#include <cstdint>

namespace caffe {

// Four random words that depend only on (counter, seed): the Philox generator of
// kernels/math/random.h, for host code.
std::array<uint32_t, 4> Philox(uint64_t counter, uint64_t seed);

// The seed of part `index` of what has the seed `seed`: seeds of different parts are independent
// (splitmix64).
uint64_t SeedOfPart(uint64_t seed, uint64_t index);

}  // namespace caffe
