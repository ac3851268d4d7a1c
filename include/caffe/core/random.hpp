#pragma once

#include <array>
#include <cstdint>

namespace caffe {

// Four random words that depend on (counter, seed) only: the Philox generator of
// kernels/math/random.h, for code of the host.
std::array<uint32_t, 4> Philox(uint64_t counter, uint64_t seed);

}  // namespace caffe
