#include "caffe/layer/broadcast.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

Shape Broadcast::ParameterShape(const std::string& where, const BlobBase& bottom, int axis,
                                int num_axes) {
  CAFFE_CHECK(num_axes >= -1, where, ": num_axes ", num_axes,
              " must be at least 0, or -1 for all axes from axis on");
  if (num_axes == 0) return {};
  const int begin = bottom.CanonicalAxisIndex(axis);
  const int end = num_axes == -1 ? bottom.num_axes() : begin + num_axes;
  CAFFE_CHECK(end <= bottom.num_axes(), where, ": ", num_axes, " axes from axis ", begin,
              " on do not fit a bottom of shape ", bottom.shape_string());
  return {bottom.shape().begin() + begin, bottom.shape().begin() + end};
}

Broadcast Broadcast::Make(const std::string& where, const BlobBase& bottom, int axis,
                          const Shape& parameter) {
  // A single value fits every bottom, even one without axes.
  const int begin = parameter.empty() ? 0 : bottom.CanonicalAxisIndex(axis);
  const int end = begin + static_cast<int>(parameter.size());
  bool fits = end <= bottom.num_axes();
  for (int i = begin; fits && i < end; ++i) fits = bottom.shape(i) == parameter[i - begin];
  CAFFE_CHECK(fits, where, ": a parameter of shape ", ShapeString(parameter),
              " does not fit a bottom of shape ", bottom.shape_string(), " from axis ", begin,
              " on");
  const Shape& shape = bottom.shape();
  // Two axes, if the bottom has two, so that the work can be divided.
  if (parameter.empty() && shape.size() > 1) return {shape[0], 1, bottom.count(1)};
  return {ShapeCount(Shape(shape.begin(), shape.begin() + begin)), ShapeCount(parameter),
          ShapeCount(Shape(shape.begin() + end, shape.end()))};
}

}  // namespace caffe
