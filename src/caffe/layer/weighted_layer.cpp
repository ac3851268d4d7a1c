#include "caffe/layer/weighted_layer.hpp"

#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/device.hpp"
#include "caffe/layer/weighted_parts.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

constexpr int64_t kMostGroups = 1 << 14;  // each has parameters and operators of its own

// The stages of the request, without a bias.
Epilogue EpilogueOf(const WorkRequest& request) {
  Epilogue epilogue;
  epilogue.stages = request.stages;
  if (request.slopes && request.slopes->count() > 1) epilogue.slopes = Epilogue::Bias::kPerRow;
  return epilogue;
}

}  // namespace

void WeightedLayer::SetUpGroups(const BlobVec& bottom, int axis) {
  if (!grouped()) return;
  const int64_t groups = layer_param().moe_param().experts();
  CAFFE_CHECK(groups >= 1, Where(), ": moe_param.experts ", groups, " is not positive");
  CAFFE_CHECK(groups <= kMostGroups, Where(), ": moe_param.experts ", groups, " is more than ",
              kMostGroups);
  groups_ = static_cast<int>(groups);
  CAFFE_CHECK(bottom[1]->count() == groups + 1, Where(), ": ", groups, " experts need ", groups + 1,
              " offsets; blob ", bottom[1]->name(), " has shape ", bottom[1]->shape_string());
  CAFFE_CHECK(bottom[0]->CanonicalAxisIndex(axis) == 1, Where(), ": axis must be 1");
}

BlobVec WeightedLayer::Inputs(const BlobVec& bottom) const {
  return grouped() ? BlobVec{bottom[0]} : bottom;
}

void WeightedLayer::AddWeights(const Shape& shape, const FillerParameter& filler, int64_t outputs,
                               const FillerParameter& bias_filler) {
  const int step = outputs > 0 ? 2 : 1;
  for (int group = 0; group < groups_; ++group) {
    AddParameter(group * step, shape, filler);
    if (outputs > 0) AddParameter(group * step + 1, {outputs}, bias_filler);
  }
}

void WeightedLayer::SetUpWeights(size_t pairs) {
  rows_ = -1;
  DropOps(false);
  weights_.clear();
  const size_t count = types().compute.is_quantized() ? pairs : 1;
  for (size_t i = 0; i < count; ++i) weights_.push_back(MakeWeights({}));
}

JointWeights::Groups WeightedLayer::MakeWeights(const WorkRequest& request) const {
  JointWeights::Groups groups;
  for (int group = 0; group < groups_; ++group) {
    OperatorWeights::Source source = WeightSource();
    source.weights = blobs_[group * per_group()].get();
    if (per_group() > 1) source.bias = blobs_[group * per_group() + 1].get();
    source.pseudo = pseudo_;
    source.dynamic = dynamic();
    source.maps = request.maps;
    for (const Epilogue::Stage& stage : request.stages) {
      if (const auto* activation = std::get_if<ElementFunction>(&stage))
        source.activation = *activation;
    }
    source.slopes = request.slopes;
    groups.push_back(
        std::make_shared<OperatorWeights>(std::move(source), types().compute, device()));
  }
  return groups;
}

void WeightedLayer::SetRanges(const WorkRequest& request,
                              const JointWeights::Groups& weights) const {
  const auto top = [this](const NodeRanges& of) { return Observed(types().out, of.top, 0, "top"); };
  const auto summand = [&](int bottom) {
    return Observed(types().out, request.sum->bottom, bottom, "bottom");
  };
  const QuantRange in = BottomRange(0), out = top(*request.last);
  QuantRange own = out;
  for (const Epilogue::Stage& stage : request.stages) {
    const auto* sum = std::get_if<ResidualSum>(&stage);
    if (!sum) continue;
    own = summand(1 - request.residual_bottom);
    const CodeSum made = CodeSum::Make(own, summand(request.residual_bottom), sum->coefficient,
                                       top(*request.sum), out);
    for (const auto& group : weights) group->SetSum(made);
  }
  for (const auto& group : weights) group->SetRanges(in, own);
}

Epilogue WeightedLayer::Completed(Epilogue epilogue, Epilogue::Bias axis,
                                  const OperatorWeights& weights) const {
  epilogue.bias = weights.has_bias() ? axis : Epilogue::Bias::kNone;
  epilogue.bias_type = master_type();
  if (epilogue.slopes != Epilogue::Bias::kNone) epilogue.slopes = axis;
  return epilogue;
}

void WeightedLayer::ShareOperators(std::shared_ptr<WeightedLayer> other) {
  other_ = std::move(other);
  if (!other_->shared_) {
    other_->shared_ = true;
    other_->DropOps(other_->backward_);
  }
  DropOps(backward_);
}

bool WeightedLayer::SharesOperators() const {
  const bool values = types().out.is_float();  // those of codes have factors of their own
  return other_ && values && pseudo_ == other_->pseudo_ && backward_ == other_->backward_ &&
         input_rows() == other_->input_rows() && blobs_ == other_->blobs_;
}

void WeightedLayer::ResetOps(int64_t rows, const BlobBase& bottom, const BlobBase& top) {
  rows_ = rows;
  x_row_ = rows > 0 ? bottom.bytes() / rows : 0;
  y_row_ = rows > 0 ? top.bytes() / rows : 0;
  DropOps(phase() == TRAIN && types().compute.is_float());
}

void WeightedLayer::DropOps(bool backward) {
  ops_.clear();
  made_ = false;
  backward_ = backward;
  joint_ = false;
  if (groups_ == 1 || rows_ < 0) return;
  // An expert computes an item once.
  const MOEParameter& parameter = layer_param().moe_param();
  const int64_t select = parameter.has_select_experts() ? parameter.select_experts() : 1;
  CAFFE_CHECK(select >= 1, Where(), ": moe_param.select_experts ", select, " is not positive");
  parts_ = RowParts(groups_, rows_, rows_ / select);
  joint_ = !device()->host_accessible() && phase() == TEST && !backward && rows_ > 0 &&
           KnowsAllGroups(weights_[0]);
}

std::vector<int64_t> WeightedLayer::OperatorRows() const {
  if (rows_ <= 0) return {};
  return groups_ == 1 || joint_ ? std::vector<int64_t>{rows_} : parts_.sizes();
}

void WeightedLayer::set_pseudo_weights(std::optional<DataType> type) {
  if (type == pseudo_ || !types().compute.is_float()) return;
  pseudo_ = type;
  const bool made = made_;
  for (auto& weights : weights_) weights = MakeWeights({});
  DropOps(backward_);
  if (made) PrepareParameters();  // a backward pass may follow
}

std::unique_ptr<WeightedOp> WeightedLayer::MakeOp(const Epilogue& epilogue,
                                                  const JointWeights::Groups& weights,
                                                  bool backward, LayoutPair layouts) const {
  if (rows_ <= 0) return nullptr;
  const auto make = [&](int64_t rows, const JointWeights::Groups& of_rows) {
    try {
      auto op = MakeLibraryOp(rows, epilogue, of_rows, backward, layouts);
      op->set_forward_only(phase() == TEST && !backward);
      return op;
    } catch (const LibraryRefusal& refusal) {
      if (!joint_) RethrowIn(Where());
      CAFFE_THROW(Where(), ": ", refusal.what(), ": no other library computes the rows of all ",
                  "experts; set full_forward: true in moe_param, so that each computes all items");
    } catch (...) {
      RethrowIn(Where());
    }
  };
  // The operator for all groups takes slopes as factors of codes only.
  const bool slopes = epilogue.activation().kind == ElementFunction::Kind::kPReLU;
  if (groups_ == 1 || (joint_ && (weights[0]->quantized() || !slopes))) return make(rows_, weights);
  return std::make_unique<WeightedParts>(parts_, weights, x_row_, y_row_, make);
}

bool WeightedLayer::EnsureOps() {
  if (made_) return !ops_.empty();
  if (SharesOperators()) {
    other_->EnsureOps();
    weights_ = other_->weights_;
    ops_ = other_->ops_;
  } else if (rows_ > 0) {
    for (const auto& weights : weights_) ops_.push_back(MakeOp({}, weights, backward_, {}));
  }
  made_ = true;
  return !ops_.empty();
}

void WeightedLayer::PrepareParameters() {
  EnsureOps();
  for (const auto& op : ops_) workspace().Need(op->workspace_bytes());
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (types().compute.is_quantized()) {
      const QuantRange in = BottomRange(static_cast<int>(i)), out = TopRange(static_cast<int>(i));
      for (const auto& group : weights_[i]) group->SetRanges(in, out);
    }
    try {
      if (i < ops_.size()) {
        ops_[i]->Prepare();
      } else {  // an empty batch has no operator
        for (const auto& group : weights_[i]) group->Refresh();
      }
    } catch (...) {
      RethrowIn(Where());
    }
  }
}

// The layer alone, with the layer's own operators.
class WeightedLayer::OwnWork final : public LayerWork {
 public:
  OwnWork(WeightedLayer* layer, const BlobVec& bottom, const BlobVec& top)
      : LayerWork(layer, bottom, top), layer_(layer), pairs_(top.size()) {}
  const char* library() const override {
    return layer_->ops_.empty() ? "" : layer_->ops_[0]->library();
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
    return 2 * layer_->ops_[0]->products() * static_cast<int64_t>(pairs_);
  }

 private:
  WeightedLayer* layer_;
  size_t pairs_;
};

void WeightedLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!made_) PrepareParameters();
  if (ops_.empty()) return;
  for (size_t i = 0; i < top.size(); ++i) {
    WeightedOp::Operands operands;
    operands.x = bottom[i]->device_data();
    operands.y = top[i]->mutable_device_data();
    operands.workspace = workspace().Need(op(i).workspace_bytes());
    if (grouped()) operands.offsets = bottom[1];
    try {
      op(i).Run(operands);
    } catch (...) {
      RethrowIn(Where());
    }
  }
}

void WeightedLayer::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                             const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  CAFFE_CHECK(types().in == types().out, Where(), ": has no backward pass from a top of type ",
              types().out.name(), " to a bottom of type ", types().in.name(),
              "; with force_backward: true, the net converts the gradient");
  if (!EnsureOps()) return;
  EnsureBackward();
  BackwardBy(ops_[0].get(), top, propagate_down, bottom);
}

void WeightedLayer::EnsureBackward() {
  if (backward_) return;
  if (SharesOperators()) other_->EnsureBackward();
  DropOps(true);
  PrepareParameters();
}

void WeightedLayer::BackwardBy(WeightedOp* op, const BlobVec& top,
                               const std::vector<bool>& propagate_down, const BlobVec& bottom) {
  const BlobBase* const offsets = grouped() ? bottom[1] : nullptr;
  for (size_t i = 0; i < top.size(); ++i) {
    for (const RowParts::Part& part : op->Find(offsets)) {
      const int64_t x = part.begin * x_row_, y = part.begin * y_row_;
      const int weights = part.group * per_group(), bias = weights + 1;
      LibraryOp::Gradients gradients;
      gradients.y_diff = top[i]->device_diff() + y;
      if (param_propagate_down(weights)) {
        gradients.x = bottom[i]->device_data() + x;
        gradients.w_diff = blobs_[weights]->mutable_device_diff();
      }
      if (per_group() > 1 && param_propagate_down(bias)) {
        gradients.b_diff = blobs_[bias]->mutable_device_diff();
      }
      if (propagate_down[i]) gradients.x_diff = bottom[i]->mutable_device_diff() + x;
      op->Of(part).Backward(gradients, &workspace());
    }
  }
}

namespace {

class WeightedWork final : public Work {
 public:
  WeightedWork(WeightedLayer* layer, std::unique_ptr<WeightedOp> op, const WorkRequest& request,
               const BlobVec& bottom, const BlobVec& top)
      : layer_(layer),
        op_(std::move(op)),
        bottom_(bottom),
        top_(top),
        gradients_(request.gradients),
        residual_(request.residual),
        slopes_(request.slopes),
        stages_(static_cast<int64_t>(request.stages.size())) {}
  const char* library() const override { return op_->library(); }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  int64_t parameter_bytes() const override {
    // The factors of codes include the slopes.
    const bool reads_slopes = slopes_ && !layer_->types().compute.is_quantized();
    return op_->parameter_bytes() + (reads_slopes ? slopes_->bytes() : 0);
  }
  std::optional<int64_t> operations() const override {
    return 2 * op_->products() + stages_ * top_[0]->count();
  }
  void CountMemory(WorkMemory* memory) const override { op_->CountMemory(memory); }
  void Prepare() override { op_->Prepare(); }
  void Run(DevicePtr workspace) override {
    WeightedOp::Operands operands;
    operands.x = bottom_[0]->device_data();
    if (residual_) operands.epilogue.residual = residual_->device_data();
    if (slopes_) operands.epilogue.slopes = slopes_->device_data();
    operands.y = top_[0]->mutable_device_data();
    operands.workspace = workspace;
    if (bottom_.size() > 1) operands.offsets = bottom_[1];
    op_->Run(operands);
  }
  void Backward(DevicePtr workspace) override {
    if (gradients_.empty()) return Work::Backward(workspace);
    layer_->BackwardBy(op_.get(), top_, gradients_, bottom_);
  }

 private:
  WeightedLayer* layer_;
  std::unique_ptr<WeightedOp> op_;
  const BlobVec bottom_, top_;
  const std::vector<bool> gradients_;
  const BlobBase *residual_, *slopes_;
  int64_t stages_;
};

}  // namespace

std::unique_ptr<Work> WeightedLayer::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                              const BlobVec& top) {
  const bool alone = request.empty() && request.layouts == LayoutPair{};
  if (alone || rows_ <= 0) return std::make_unique<OwnWork>(this, bottom, top);
  CAFFE_CHECK(top.size() == 1, Where(), ": has ", top.size(), " tops; fusing later layers, and ",
              "layouts, need one");
  if (SharesOperators()) weights_ = other_->weights_;
  // Float kinds share the copies of weights; the codes of quantized ones depend on the top's range.
  const bool quantized = types().compute.is_quantized();
  const JointWeights::Groups weights =
      request.maps.empty() && !quantized ? weights_[0] : MakeWeights(request);
  if (quantized) {
    SetRanges(request, weights);
    if (request.maps.empty()) work_weights_ = weights[0];
  }
  return std::make_unique<WeightedWork>(
      this, MakeOp(EpilogueOf(request), weights, !request.gradients.empty(), request.layouts),
      request, bottom, top);
}

std::vector<double> WeightedLayer::CodeScales() const {
  const std::shared_ptr<OperatorWeights> of_work = work_weights_.lock();
  const std::vector<double>& own = weights_[0][0]->scales();
  return own.empty() && of_work ? of_work->scales() : own;
}

LayerFacts WeightedLayer::FactsOf(LayerFacts::Weighted weighted) const {
  LayerFacts facts;
  facts.replayable = groups_ == 1 || joint_;
  facts.host = !facts.replayable && !device()->host_accessible();
  if (grouped()) {
    facts.layouts.bottoms = 1;
    facts.own_stages = weighted;
    return facts;
  }
  if (types().compute.is_quantized()) weighted.code_scales = [this] { return CodeScales(); };
  facts.weighted = std::move(weighted);
  return facts;
}

LayerTraits GroupedTraits(std::string summary) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.float_bottoms = traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = std::move(summary);
  return traits;
}

}  // namespace caffe
