#include "caffe/layer/operator_weights.hpp"

#include <utility>

#include "caffe/device/device.hpp"

namespace caffe {

// Makes folded weights, a copy in another type, or codes again.
class OperatorWeights::Remake final : public SyncedMemory::Source {
 public:
  explicit Remake(OperatorWeights* weights) : weights_(weights) {}
  void Make(SyncedMemory* memory) override {
    for (const Form& form : weights_->forms_) {
      if (form.made_by && form.blob->data_memory().get() == memory) return form.made_by->Rebuild();
    }
  }

 private:
  OperatorWeights* weights_;
};

OperatorWeights::OperatorWeights(Source source, DataType type, Device* device)
    : source_(std::move(source)), type_(type), remake_(std::make_shared<Remake>(this)) {
  const BlobBase *weights = source_.weights, *bias = source_.bias;
  QuantizedParameters::Options quantizer = source_.quantizer;
  const bool folds = !source_.maps.empty(), pseudo = source_.pseudo && !quantized();
  const bool on_host = folds || quantized();
  forms_.push_back({.blob = weights, .to_host = on_host, .keep = on_host || pseudo});
  if (folds) {
    folded_ = std::make_unique<FoldedWeights>(weights, bias, source_.layout, source_.maps);
    weights = &folded_->weights();
    bias = &folded_->bias();
    quantizer.limits.reset();
    forms_.push_back({weights, folded_.get(), quantized(), pseudo, bias->bytes()});
  }
  if (quantized()) {
    codes_ = QuantizedParameters(
        {weights, bias, source_.layout.channels, source_.layout.group, source_.layout.outer,
         quantizer, source_.activation, source_.slopes, source_.dynamic},
        type, device);
    forms_.push_back({.blob = &codes_.codes(), .made_by = &codes_, .more = codes_.channel_bytes()});
    return;
  }
  if (pseudo) {
    pseudo_ =
        std::make_unique<PseudoWeights>(weights, source_.layout, *source_.pseudo, type, device);
    weights = &pseudo_->blob();
    forms_.push_back({.blob = weights, .made_by = pseudo_.get(), .keep = true});
  }
  copy_ = ParameterCopy(weights, type, device);
  if (copy_.converts()) forms_.push_back({.blob = &copy_.blob(), .made_by = &copy_});
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

bool OperatorWeights::Frees(const Form& form) const {
  // The parameter, if no other net reads it.
  return !form.keep && (form.made_by || form.blob->data_memory().use_count() == 1);
}

void OperatorWeights::Free(const Form& form) {
  if (!Frees(form)) return;
  SyncedMemory& memory = *form.blob->data_memory();
  form.made_by ? memory.FreeUntilAccess(remake_) : memory.FreeDeviceCopy();
}

void OperatorWeights::Refresh(bool forward_only, Derived* prepared) {
  for (size_t i = 1; i < forms_.size(); ++i) {
    if (forms_[i].made_by->Refresh() && forward_only) Free(forms_[i - 1]);
  }
  if (!quantized() && !copy_.converts()) copy_.Refresh();  // uploads what the operator reads
  if (!quantized() && has_bias()) bias_.Refresh();
  if (prepared && prepared->Refresh() && forward_only) Free(forms_.back());
}

void OperatorWeights::CountMemory(bool forward_only, bool prepared, WorkMemory* memory) const {
  const bool one_memory = source_.weights->device()->host_accessible();
  const auto absent = [&](const BlobBase* parameter) {
    if (parameter && !one_memory) memory->absent.insert(parameter);
  };
  if (forms_[0].to_host) absent(source_.bias);
  for (const Affine& map : source_.maps) {
    for (const BlobBase* blob : map.sources) absent(blob);
  }
  for (const Form& form : forms_) {
    const bool last = &form == &forms_.back();
    const bool freed = forward_only && (!last || prepared) && Frees(form);
    if (!form.made_by) {  // the net counts parameters
      if (form.to_host || freed) absent(form.blob);
      continue;
    }
    if (form.to_host && !one_memory) continue;
    const bool adopts =
        last && one_memory && (quantized() ? codes_.takes_stored_codes() : copy_.takes_stored());
    memory->Add({weak_from_this().lock(), form.made_by}, freed || adopts ? 0 : form.blob->bytes());
    memory->Add({weak_from_this().lock(), form.blob}, form.more);
  }
}

}  // namespace caffe
