#include "caffe/library/prepared_weights.hpp"

#include <utility>

namespace caffe {

PreparedWeights::PreparedWeights(const BlobBase* weights, std::string key)
    : Derived({weights}), weights_(weights), form_(std::move(key)) {}

Derived* PreparedWeights::By(Operator* op) {
  op_ = op;
  if (op->library() != library_) {
    library_ = op->library();
    SetKey(form_ + " " + library_);
    buffer_.reset();
    data_ = {};
  }
  return op->prepared_bytes() > 0 ? this : nullptr;
}

void PreparedWeights::Build() {
  const int64_t bytes = op_->prepared_bytes();
  if (!buffer_ || buffer_->bytes() != bytes || buffer_->device() != weights_->device()) {
    buffer_.reset();
    buffer_ = std::make_unique<DeviceBuffer>(
        weights_->device(), bytes, weights_->name() + " as " + op_->library() + " takes it");
  }
  const DevicePtr weights = weights_->device_data();
  data_ = buffer_->pointer().As(weights);
  op_->Prepare(weights, data_);
}

}  // namespace caffe
