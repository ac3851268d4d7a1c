#include "caffe/solver/loss_window.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/net/net.hpp"

namespace caffe {

LossWindow::LossWindow(Net* net, int iterations, int passes)
    : net_(net), slots_(int64_t{iterations} * passes) {
  CAFFE_CHECK(iterations > 0, "average_loss must be positive; it is ", iterations);
}

void LossWindow::MakeRing() {
  losses_.clear();
  slot_bytes_ = 0;
  for (size_t i = 0; i < net_->blobs().size(); ++i) {
    const float weight = net_->blob_loss_weights()[i];
    if (weight == 0) continue;
    BlobBase* blob = net_->blobs()[i].get();
    losses_.push_back({blob, weight, blob->bytes(), slot_bytes_});
    slot_bytes_ += (blob->bytes() + 7) / 8 * 8;
  }
  ring_ = std::make_unique<SyncedMemory>(slot_bytes_ * slots_, net_->device(), "losses");
  recorded_ = 0;
}

void LossWindow::Record() {
  if (slots_ > 1) {
    const bool fits = ring_ && std::all_of(losses_.begin(), losses_.end(), [](const Loss& loss) {
                        return loss.blob->bytes() == loss.bytes;
                      });
    if (!fits) MakeRing();
    if (ring_->device() != net_->device()) ring_->SetDevice(net_->device());
    const DevicePtr slot = ring_->mutable_device_data() + recorded_ % slots_ * slot_bytes_;
    for (const Loss& loss : losses_) {
      net_->device()->Copy(slot + loss.offset, loss.blob->device_data(), loss.bytes);
    }
  }
  ++recorded_;
}

double LossWindow::Mean() {
  if (recorded_ == 0) return 0;
  if (slots_ == 1) return net_->Loss();
  const int64_t used = std::min(recorded_, slots_);
  const char* ring = static_cast<const char*>(ring_->host_data());
  double sum = 0;
  for (int64_t slot = 0; slot < used; ++slot) {
    for (const Loss& loss : losses_) {
      std::vector<double> values(loss.blob->count());
      ConvertElements(loss.blob->type(), ring + slot * slot_bytes_ + loss.offset, kDouble,
                      values.data(), values.size());
      for (double value : values) sum += loss.weight * value;
    }
  }
  if (!std::isfinite(sum)) net_->CheckData();
  return sum / static_cast<double>(used);
}

}  // namespace caffe
