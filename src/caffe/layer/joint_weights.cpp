#include "caffe/layer/joint_weights.hpp"

#include <utility>

#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// The weights of a group, as the operator reads them, in their part of the array.
class JointWeights::Slice final : public Derived {
 public:
  Slice(JointWeights* all, size_t group, const std::string& key)
      : Derived({&all->groups_[group]->weights()}),
        all_(all),
        weights_(&all->groups_[group]->weights()),
        offset_(static_cast<int64_t>(group) * all->WeightBytes()) {
    SetKey(key);
  }

 private:
  void Build() override {
    const DevicePtr to = all_->array_->pointer() + offset_;
    if (all_->prepares()) {
      all_->op_->Prepare(weights_->device_data(), to);
    } else {
      weights_->device()->Copy(to, weights_->device_data(), weights_->bytes());
    }
  }

  JointWeights* all_;
  const BlobBase* weights_;
  int64_t offset_;
};

// Bias and factors of all groups. Each group has arrays with an element for each channel, one after
// the other; here each of them has the elements of all groups.
class JointWeights::Channels final : public Derived {
 public:
  explicit Channels(const Groups& groups) : Derived(Blobs(groups)), blobs_(Blobs(groups)) {
    const OperatorWeights& first = *groups[0];
    widths_ = first.quantized()
                  ? std::vector<int64_t>{8, 4, 4, 4, 4}
                  : std::vector<int64_t>{static_cast<int64_t>(blobs_[0]->type().bytes())};
    int64_t widths = 0;
    for (const int64_t width : widths_) widths += width;
    channels_ = blobs_[0]->bytes() / widths;
  }
  // The array of this number.
  DevicePtr Array(size_t number) const {
    int64_t offset = 0;
    for (size_t i = 0; i < number; ++i) offset += widths_[i] * channels_ * Count();
    return buffer_->pointer() + offset;
  }

 private:
  static std::vector<const BlobBase*> Blobs(const Groups& groups) {
    std::vector<const BlobBase*> blobs;
    for (const auto& group : groups) blobs.push_back(group->channel_blob());
    return blobs;
  }
  int64_t Count() const { return static_cast<int64_t>(blobs_.size()); }
  void Build() override {
    if (!buffer_) {
      buffer_ = std::make_unique<DeviceBuffer>(blobs_[0]->device(), blobs_[0]->bytes() * Count(),
                                               blobs_[0]->name() + " of all experts");
    }
    for (int64_t g = 0; g < Count(); ++g) {
      DevicePtr from = blobs_[g]->device_data();
      for (size_t i = 0; i < widths_.size(); ++i) {
        const int64_t bytes = widths_[i] * channels_;
        blobs_[g]->device()->Copy(Array(i) + g * bytes, from, bytes);
        from = from + bytes;
      }
    }
  }

  std::vector<const BlobBase*> blobs_;
  std::vector<int64_t> widths_;  // bytes of an element of each array
  int64_t channels_ = 0;         // of a group
  std::unique_ptr<DeviceBuffer> buffer_;
};

JointWeights::JointWeights(Groups groups, Operator* op, const std::string& key)
    : groups_(std::move(groups)), op_(op) {
  if (groups_.size() == 1) {
    prepared_ = groups_[0]->Prepared(*op_, key);
    return;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    slices_.push_back(std::make_unique<Slice>(this, g, key));
  }
  if (groups_[0]->channel_blob()) channels_ = std::make_unique<Channels>(groups_);
}

JointWeights::~JointWeights() = default;

int64_t JointWeights::WeightBytes() const {
  return prepares() ? op_->prepared_bytes() : groups_[0]->weights().bytes();
}

void JointWeights::Refresh() {
  if (!prepared_) return RefreshGroups();
  groups_[0]->Refresh(forward_only_, prepared_->By(op_));
  // Another operator may have freed them.
  if (!FreesWeights()) groups_[0]->weights().device_data();
}

void JointWeights::RefreshGroups() {
  if (!array_) {
    const BlobBase& first = groups_[0]->weights();
    array_ = std::make_unique<DeviceBuffer>(first.device(),
                                            static_cast<int64_t>(groups_.size()) * WeightBytes(),
                                            first.name() + " of all experts");
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    try {
      groups_[g]->Refresh(forward_only_, slices_[g].get());
    } catch (...) {
      RethrowIn(Concat("expert ", g));
    }
  }
  if (channels_) channels_->Refresh();
}

void JointWeights::CountMemory(WorkMemory* memory) const {
  if (prepared_) {
    memory->Add(prepared_, op_->prepared_bytes());
  } else {
    const BlobBase* const channels = groups_[0]->channel_blob();
    memory->derived +=
        static_cast<int64_t>(groups_.size()) * (WeightBytes() + (channels ? channels->bytes() : 0));
  }
  for (const auto& group : groups_) {
    group->CountMemory(forward_only_, !prepared_ || prepares(), memory);
  }
}

DevicePtr JointWeights::weights() const {
  if (!prepared_) return prepares() ? DevicePtr{} : array_->pointer();
  return FreesWeights() ? DevicePtr{} : groups_[0]->weights().device_data();
}

DevicePtr JointWeights::prepared() const {
  if (prepared_) return prepared_->data();
  return prepares() ? array_->pointer() : DevicePtr{};
}

DevicePtr JointWeights::bias() const {
  if (prepared_) return groups_[0]->bias();
  return channels_ && !quantized() ? channels_->Array(0) : DevicePtr{};
}

QuantArguments JointWeights::quant() const {
  QuantArguments quant = groups_[0]->quant();
  if (!channels_) return quant;
  quant.bias = channels_->Array(0);
  quant.multiplier = channels_->Array(1);
  quant.shift = channels_->Array(2);
  if (quant.negative_multiplier) {
    quant.negative_multiplier = channels_->Array(3);
    quant.negative_shift = channels_->Array(4);
  }
  return quant;
}

}  // namespace caffe
