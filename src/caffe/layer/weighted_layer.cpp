#include "caffe/layer/weighted_layer.hpp"

#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {

std::shared_ptr<OperatorWeights> WeightedLayer::MakeWeights(const WorkRequest& request) const {
  OperatorWeights::Source source = WeightSource();
  source.pseudo = pseudo_;
  return OperatorLayer::MakeWeights(std::move(source), request);
}

void WeightedLayer::SetUpWeights(size_t bottoms) {
  ResetOps(false);
  weights_.clear();
  const size_t count = types().compute.is_quantized() ? bottoms : 1;
  for (size_t i = 0; i < count; ++i) weights_.push_back(MakeWeights({}));
}

void WeightedLayer::ShareOperators(std::shared_ptr<WeightedLayer> other) {
  other_ = std::move(other);
  if (!other_->shared_) {
    other_->shared_ = true;
    other_->ResetOps(other_->backward_);
  }
  ResetOps(backward_);
}

bool WeightedLayer::SharesOperators() const {
  return other_ && types().compute.is_float() && pseudo_ == other_->pseudo_ &&
         backward_ == other_->backward_ && input_rows() == other_->input_rows() &&
         blobs_ == other_->blobs_;
}

void WeightedLayer::ResetOps(bool backward) {
  ops_.clear();
  made_ = false;
  backward_ = backward;
  OnResetOps();
}

void WeightedLayer::set_pseudo_weights(std::optional<DataType> type) {
  if (type == pseudo_ || !types().compute.is_float()) return;
  pseudo_ = type;
  const bool made = made_;
  for (auto& weights : weights_) weights = MakeWeights({});
  ResetOps(backward_);
  if (made) PrepareParameters();  // a backward pass may follow
}

bool WeightedLayer::EnsureOps() {
  if (made_) return !ops_.empty();
  if (SharesOperators()) {
    other_->EnsureOps();
    weights_ = other_->weights_;
    ops_ = other_->ops_;
    made_ = true;
    return !ops_.empty();
  }
  for (const auto& weights : weights_) {
    try {
      auto op = MakeOp({}, weights, backward_, {});
      if (!op) break;
      op->set_forward_only(phase() == TEST && !backward_);
      ops_.push_back(std::move(op));
    } catch (const Error& error) {
      CAFFE_THROW(Where(), ": ", error.what());
    }
  }
  made_ = true;
  return !ops_.empty();
}

void WeightedLayer::PrepareParameters() {
  EnsureOps();
  for (const auto& op : ops_) workspace().Need(op->workspace_bytes());
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i]->quantized()) {
      const QuantRange in = BottomRange(static_cast<int>(i)), out = TopRange(static_cast<int>(i));
      weights_[i]->SetRanges(in, out);
    }
    try {
      // An empty batch has no operator.
      i < ops_.size() ? ops_[i]->Prepare() : weights_[i]->Refresh();
    } catch (const Error& error) {
      CAFFE_THROW(Where(), ": ", error.what());
    }
  }
}

// The layer alone, with the layer's own operators.
class WeightedLayer::OwnWork final : public LayerWork {
 public:
  OwnWork(WeightedLayer* layer, const BlobVec& bottom, const BlobVec& top)
      : LayerWork(layer, bottom, top), layer_(layer), bottoms_(bottom.size()) {}
  const char* library() const override {
    return layer_->ops_.empty() ? "" : layer_->ops_[0]->op().library();
  }
  int64_t workspace_bytes() const override {
    int64_t bytes = 0;
    for (const auto& op : layer_->ops_) bytes = std::max(bytes, op->workspace_bytes());
    return bytes;
  }
  void CountMemory(WorkMemory* memory) const override {
    layer_->EnsureOps();
    if (layer_->SharesOperators()) return;  // the other layer's work counts them
    for (const auto& op : layer_->ops_) op->CountMemory(memory);
    layer_->CountMemory(memory);
  }
  int64_t parameter_bytes() const override {
    int64_t bytes = 0;
    for (const auto& op : layer_->ops_) bytes += op->parameter_bytes();
    return bytes;
  }
  std::optional<int64_t> operations() const override {
    if (layer_->ops_.empty()) return 0;
    return 2 * layer_->ops_[0]->products() * static_cast<int64_t>(bottoms_);
  }

 private:
  WeightedLayer* layer_;
  size_t bottoms_;
};

void WeightedLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!made_) PrepareParameters();
  if (ops_.empty()) return;
  for (size_t i = 0; i < bottom.size(); ++i) {
    WeightedOp::Operands operands;
    operands.x = bottom[i]->device_data();
    operands.y = top[i]->mutable_device_data();
    operands.workspace = workspace().Need(op(i).workspace_bytes());
    op(i).Run(operands);
  }
}

namespace {

class WeightedWork final : public Work {
 public:
  WeightedWork(WeightedLayer* layer, std::unique_ptr<WeightedOp> op, const WorkRequest& request,
               BlobBase* bottom, BlobBase* top)
      : layer_(layer),
        op_(std::move(op)),
        bottom_(bottom),
        top_(top),
        gradients_(request.gradients),
        residual_(request.residual),
        slopes_(request.slopes),
        stages_(static_cast<int64_t>(request.stages.size())) {}
  const char* library() const override { return op_->op().library(); }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  int64_t parameter_bytes() const override {
    // The factors of codes include the slopes.
    const bool reads_slopes = slopes_ && !op_->weights().quantized();
    return op_->parameter_bytes() + (reads_slopes ? slopes_->bytes() : 0);
  }
  std::optional<int64_t> operations() const override {
    return 2 * op_->products() + stages_ * top_->count();
  }
  void CountMemory(WorkMemory* memory) const override { op_->CountMemory(memory); }
  void Prepare() override { op_->Prepare(); }
  void Run(DevicePtr workspace) override {
    WeightedOp::Operands operands;
    operands.x = bottom_->device_data();
    if (residual_) operands.epilogue.residual = residual_->device_data();
    if (slopes_) operands.epilogue.slopes = slopes_->device_data();
    operands.y = top_->mutable_device_data();
    operands.workspace = workspace;
    op_->Run(operands);
  }
  void Backward(DevicePtr workspace) override {
    if (gradients_.empty()) return Work::Backward(workspace);
    layer_->BackwardBy(op_.get(), {top_}, gradients_, {bottom_});
  }

 private:
  WeightedLayer* layer_;
  std::unique_ptr<WeightedOp> op_;
  BlobBase *bottom_, *top_;
  const std::vector<bool> gradients_;
  const BlobBase *residual_, *slopes_;
  int64_t stages_;
};

}  // namespace

std::unique_ptr<Work> WeightedLayer::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                              const BlobVec& top) {
  if (request.empty() && request.layouts == LayoutPair{}) {
    return std::make_unique<OwnWork>(this, bottom, top);
  }
  CAFFE_CHECK(bottom.size() == 1 && top.size() == 1, Where(), ": ", bottom.size(), " bottoms and ",
              top.size(), " tops; fusing later layers, and layouts, need one of each");
  if (SharesOperators()) weights_ = other_->weights_;
  // Float kinds share the copies of weights; the codes of quantized ones depend on the top's range.
  std::shared_ptr<OperatorWeights> weights =
      request.maps.empty() && !weights_[0]->quantized() ? weights_[0] : MakeWeights(request);
  if (weights->quantized()) {
    SetRanges(request, weights.get());
    if (request.maps.empty()) work_weights_ = weights;
  }
  std::unique_ptr<WeightedOp> op =
      MakeOp(EpilogueOf(request), std::move(weights), !request.gradients.empty(), request.layouts);
  if (!op) return std::make_unique<OwnWork>(this, bottom, top);  // an empty shape
  op->set_forward_only(phase() == TEST);
  return std::make_unique<WeightedWork>(this, std::move(op), request, bottom[0], top[0]);
}

void WeightedLayer::BackwardBy(WeightedOp*, const BlobVec&, const std::vector<bool>&,
                               const BlobVec&) {
  CAFFE_THROW(Where(), ": has no backward pass besides its own");
}

std::vector<double> WeightedLayer::CodeScales() const {
  if (!types().compute.is_quantized()) return {};
  const std::shared_ptr<OperatorWeights> of_work = work_weights_.lock();
  const std::vector<double>& own = weights_[0]->scales();
  return own.empty() && of_work ? of_work->scales() : own;
}

}  // namespace caffe
