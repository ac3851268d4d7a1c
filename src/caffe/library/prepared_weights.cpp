#include "caffe/library/prepared_weights.hpp"

#include <utility>

namespace caffe {

PreparedWeights::PreparedWeights(Operator* op, const BlobBase* weights, std::string key)
    : Derived({weights}), op_(op), weights_(weights), descriptor_(std::move(key)) {}

bool PreparedWeights::Refresh() {
  if (!op_) return false;
  if (op_->library() != library_) {
    library_ = op_->library();
    SetKey(descriptor_ + " " + library_);
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
