#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {

// Extents of an N-dimensional array in C order, 0 to 32 axes. Extents are at least 0.
using Shape = std::vector<int64_t>;

// The product of the extents from axis `begin` up to, not including, `end` (-1: the last). Throws
// if it exceeds 2^31 - 1 times 2^16, long before memory could hold it.
int64_t ShapeCount(const Shape& shape, int begin = 0, int end = -1);

// "64 1 28 28 (50176)", as BVLC's log prints shapes.
std::string ShapeString(const Shape& shape);

// `axis` counted from the end if negative; throws with `what` if it is out of range.
int CanonicalAxis(const Shape& shape, int axis, const std::string& what);

}  // namespace caffe
