#include "caffe/library/lstm.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

std::string LstmDescriptor::name() const {
  return Concat(type.name(), " lstm ", steps, " x ", items, ", ", hidden, " units",
                trains ? ", trains" : "");
}

void LstmOp::Backward(const LstmGradients& gradients) {
  CAFFE_CHECK(descriptor_.trains, descriptor_.name(), ": has no backward pass");
  DoBackward(gradients);
}

}  // namespace caffe
