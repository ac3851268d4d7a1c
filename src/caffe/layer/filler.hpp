#pragma once

#include <cstdint>

#include "caffe/memory/blob.hpp"

namespace caffe {

class FillerParameter;

// Fills a blob of a float kind with one of BVLC's fillers: constant, uniform, gaussian (with
// sparse), positive_unitball, xavier, msra, bilinear. Random numbers are Philox of (seed, element),
// so one seed gives the same values on every device. Throws on an unknown type or invalid values.
void Fill(const FillerParameter& parameter, uint64_t seed, BlobBase* blob);

// The same, but the elements are computed at the first access to the blob's data: never, if weights
// are loaded before. Throws at once, as Fill does.
void FillAtAccess(const FillerParameter& parameter, uint64_t seed, BlobBase* blob);

}  // namespace caffe
