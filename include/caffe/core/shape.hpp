#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {

// Extents of an N-dimensional array in C order, 0 to 32 axes. Extents are at least 0.
using Shape = std::vector<int64_t>;

// The product of the extents of the axes in [begin, end); end -1 means all that follow. Throws if
// it exceeds (2^31 - 1) 2^16, which no memory can hold.
int64_t ShapeCount(const Shape& shape, int begin = 0, int end = -1);

// "64 1 28 28 (50176)", as BVLC's log prints shapes.
std::string ShapeString(const Shape& shape);

// `axis`, or axis + number of axes if it is negative. Throws if it is out of range; `what` begins
// the message.
int CanonicalAxis(const Shape& shape, int axis, const std::string& what);

}  // namespace caffe
