#pragma once

#include <cstdint>

#include "caffe/memory/blob.hpp"

namespace caffe {

class FillerParameter;

// Fills a blob of a float kind as BVLC's fillers do: constant, uniform, gaussian (with sparse),
// positive_unitball, xavier, msra, bilinear. Random numbers are Philox of (seed, element), so one
// seed gives the same values everywhere. Throws on an unknown type or values that do not fit.
void Fill(const FillerParameter& parameter, uint64_t seed, BlobBase* blob);

}  // namespace caffe
