#include "caffe/layer/operator_weights.hpp"

#include <utility>

#include "caffe/device/device.hpp"

namespace caffe {

// Makes folded weights, a copy in another type, or codes again.
class OperatorWeights::Remake final : public SyncedMemory::Source {
 public:
  explicit Remake(OperatorWeights* weights) : weights_(weights) {}
  void Make(SyncedMemory* memory) override {
    const OperatorWeights& w = *weights_;
    if (w.folded_ && memory == w.folded_->weights().data_memory().get()) {
      w.folded_->Rebuild();
    } else if (w.quantized()) {
      weights_->codes_.Rebuild();
    } else {
      weights_->copy_.Rebuild();
    }
  }

 private:
  OperatorWeights* weights_;
};

OperatorWeights::OperatorWeights(Source source, DataType type, Device* device)
    : source_(std::move(source)), type_(type), remake_(std::make_shared<Remake>(this)) {
  const BlobBase *weights = source_.weights, *bias = source_.bias;
  QuantizedParameters::Options quantizer = source_.quantizer;
  if (!source_.maps.empty()) {
    folded_ = std::make_unique<FoldedWeights>(weights, bias, source_.layout, source_.maps);
    weights = &folded_->weights();
    bias = &folded_->bias();
    quantizer.limits.reset();
  }
  if (quantized()) {
    codes_ =
        QuantizedParameters({weights, bias, source_.layout.channels, source_.layout.group,
                             source_.layout.outer, quantizer, source_.activation, source_.slopes},
                            type, device);
    return;
  }
  if (source_.pseudo) {
    pseudo_ =
        std::make_unique<PseudoWeights>(weights, source_.layout, *source_.pseudo, type, device);
    weights = &pseudo_->blob();
  }
  copy_ = ParameterCopy(weights, type, device);
  if (bias) bias_ = ParameterCopy(bias, bias->type(), device);
}

std::shared_ptr<PreparedWeights> OperatorWeights::Prepared(const Operator& op,
                                                           const std::string& key) {
  const std::string form = op.prepared_form();
  if (form.empty()) return std::make_shared<PreparedWeights>(&weights(), key);
  std::weak_ptr<PreparedWeights>& shared = prepared_[form];
  std::shared_ptr<PreparedWeights> found = shared.lock();
  if (!found) shared = found = std::make_shared<PreparedWeights>(&weights(), form);
  return found;
}

void OperatorWeights::SetRanges(const QuantRange& in, const QuantRange& out) {
  codes_.SetRanges(in, out);
}

int64_t OperatorWeights::channel_bytes() const {
  if (quantized()) return codes_.channel_bytes();
  return has_bias() ? bias_.blob().bytes() : 0;
}

void OperatorWeights::CountMemory(bool free_sources, bool prepared, WorkMemory* memory) const {
  const bool on_host = source_.weights->device()->host_accessible();
  const bool alone = source_.weights->data_memory().use_count() == 1;
  const auto absent = [&](const BlobBase* blob) {
    if (blob && !on_host) memory->absent.insert(blob);
  };
  if (folded_) {  // on the host
    absent(source_.weights);
    absent(source_.bias);
    for (const Affine& map : source_.maps) {
      for (const BlobBase* blob : map.sources) absent(blob);
    }
  }
  const bool frees = free_sources && prepared;
  if (quantized()) {
    const bool adopts = on_host && codes_.takes_stored_codes();
    memory->derived += channel_bytes();
    if (!frees && !adopts) memory->derived += codes_.codes().bytes();
    if (folded_ && on_host) {
      memory->derived += folded_->bias().bytes() + (free_sources ? 0 : folded_->weights().bytes());
    }
    absent(source_.weights);
    absent(source_.bias);
    return;
  }
  const bool converts = copy_.converts();
  const bool adopts = converts && on_host && copy_.takes_stored();
  // Steps of a recurrent layer share the copy.
  if (converts && !frees && !adopts &&
      memory->counted.emplace(weak_from_this().lock(), &copy_).second) {
    memory->derived += copy_.blob().bytes();
  }
  if (pseudo_) memory->derived += pseudo_->blob().bytes();
  const bool frees_source = free_sources && (converts || prepared);
  if (folded_) {
    memory->derived += folded_->bias().bytes();
    if (!frees_source) memory->derived += folded_->weights().bytes();
  } else if (frees_source && alone) {
    absent(source_.weights);
  }
}

void OperatorWeights::Refresh(bool free_sources) {
  if (folded_) folded_->Refresh();
  if (quantized()) {
    if (codes_.Refresh() && free_sources && folded_) FreeSource();
    return;
  }
  if (pseudo_) pseudo_->Refresh();
  if (copy_.Refresh() && free_sources && copy_.converts()) FreeSource();
  if (has_bias()) bias_.Refresh();
}

void OperatorWeights::FreeSource() {
  if (pseudo_) {
    // Stays: its source changes in training.
  } else if (folded_) {
    folded_->weights().data_memory()->FreeUntilAccess(remake_);
  } else if (source_.weights->data_memory().use_count() == 1) {
    source_.weights->data_memory()->FreeDeviceCopy();  // no other net reads it
  }
}

void OperatorWeights::Free() {
  if (quantized()) {
    codes_.codes().data_memory()->FreeUntilAccess(remake_);
  } else if (copy_.converts()) {
    copy_.blob().data_memory()->FreeUntilAccess(remake_);
  } else {
    FreeSource();
  }
}

}  // namespace caffe
