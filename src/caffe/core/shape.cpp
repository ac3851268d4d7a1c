#include "caffe/core/shape.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

int64_t ShapeCount(const Shape& shape, int begin, int end) {
  constexpr int64_t kLimit = int64_t{1} << 47;
  if (end < 0) end = static_cast<int>(shape.size());
  // `most` leaves out zeros, so that products of other axes than these do not overflow either.
  int64_t count = 1, most = 1;
  for (int axis = begin; axis < end; ++axis) {
    CAFFE_CHECK(shape[axis] >= 0, "extent ", shape[axis], " of axis ", axis, " is negative");
    CAFFE_CHECK(
        shape[axis] == 0 || most <= kLimit / shape[axis], "a blob of shape ",
        [&] {
          std::string text;
          for (int64_t extent : shape) text += std::to_string(extent) + " ";
          return text;
        }(),
        "has too many elements");
    count *= shape[axis];
    if (shape[axis] > 0) most *= shape[axis];
  }
  return count;
}

std::string ShapeString(const Shape& shape) {
  std::string text;
  for (int64_t extent : shape) text += std::to_string(extent) + " ";
  return text + "(" + std::to_string(ShapeCount(shape)) + ")";
}

int CanonicalAxis(const Shape& shape, int axis, const std::string& what) {
  const int axes = static_cast<int>(shape.size());
  CAFFE_CHECK(axis >= -axes && axis < axes, what, ": axis ", axis,
              " is out of range for a blob of ", axes, " axes (shape ", ShapeString(shape), ")");
  return axis < 0 ? axis + axes : axis;
}

}  // namespace caffe
