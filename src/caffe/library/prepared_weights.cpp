#include "caffe/library/prepared_weights.hpp"

#include <utility>

namespace caffe {

PreparedWeights::PreparedWeights(const BlobBase* weights, std::string key)
    : Derived({weights}), weights_(weights), form_(std::move(key)) {}

bool PreparedWeights::Refresh(Operator* op) {
  op_ = op;
  if (op->library() != library_) {
    library_ = op->library();
    SetKey(form_ + " " + library_);
  }
  return Derived::Refresh();
}

void PreparedWeights::Build() {
  const int64_t bytes = op_->prepared_bytes();
  if (bytes == 0) {
    buffer_.reset();
    return;
  }
  if (!buffer_ || buffer_->bytes() != bytes || buffer_->device() != weights_->device()) {
    buffer_.reset();
    buffer_ = std::make_unique<DeviceBuffer>(
        weights_->device(), bytes, weights_->name() + " as " + op_->library() + " takes it");
  }
  op_->Prepare(weights_->device_data(), buffer_->pointer());
}

}  // namespace caffe
