#include "caffe/library/pooling.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"

namespace caffe {

int64_t PoolDescriptor::largest_area() const {
  const auto extent = [](const Axis& axis) {
    return std::min(axis.kernel, axis.input + 2 * axis.pad);
  };
  return extent(height) * extent(width);
}

std::string PoolDescriptor::name() const {
  const char* const methods[] = {"max", "average", "draw", "expect"};
  return Concat(types.name(), " ", methods[static_cast<int>(method)], " ", planes, " planes ",
                height.input, "x", width.input, " -> ", height.output, "x", width.output, ", ",
                height.kernel, "x", width.kernel, "/", height.stride, "x", width.stride, " pad ",
                height.pad, "x", width.pad, fixed_window ? "" : " variable",
                has_private_layout() ? Concat(" NHWC of ", channels) : "", trains ? " trains" : "",
                y_pitch ? Concat(" pitch ", y_pitch) : "");
}

void PoolOp::Forward(const PoolArguments& arguments) {
  const bool codes =
      descriptor_.quantized() && descriptor_.method == PoolDescriptor::Method::kAverage;
  CAFFE_CHECK(codes == (arguments.quant != nullptr), "pooling ", descriptor_.name(),
              ": QuantArguments must be given for averages of quantized types, and only for them");
  CAFFE_CHECK(arguments.mask || !descriptor_.has_mask(), "pooling ", descriptor_.name(),
              ": writes a mask");
  DoForward(arguments);
}

void PoolOp::Backward(const PoolArguments& arguments) {
  CAFFE_CHECK(descriptor_.has_gradient(), "pooling ", descriptor_.name(), ": has no gradient");
  CAFFE_CHECK(arguments.mask || !descriptor_.has_mask(), "pooling ", descriptor_.name(),
              ": the gradient reads the mask");
  DoBackward(arguments);
}

}  // namespace caffe
