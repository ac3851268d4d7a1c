#include "caffe/layer/grouped_layer.hpp"

#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

constexpr int64_t kMostGroups = 1 << 14;  // each has parameters and operators of its own

}  // namespace

void GroupedLayer::SetUpGroups(const BlobVec& bottom) {
  const int64_t groups = layer_param().moe_param().experts();
  CAFFE_CHECK(groups >= 1, Where(), ": moe_param.experts ", groups, " is not positive");
  CAFFE_CHECK(groups <= kMostGroups, Where(), ": moe_param.experts ", groups, " is more than ",
              kMostGroups);
  groups_ = static_cast<int>(groups);
  CAFFE_CHECK(bottom[1]->count() == groups + 1, Where(), ": ", groups, " experts need ", groups + 1,
              " offsets; blob ", bottom[1]->name(), " has shape ", bottom[1]->shape_string());
}

void GroupedLayer::ResetWeights() {
  own_.reset();
  weights_ = MakeGroupWeights({});
}

JointWeights::Groups GroupedLayer::MakeGroupWeights(const WorkRequest& request) const {
  JointWeights::Groups weights;
  for (int group = 0; group < groups_; ++group) {
    weights.push_back(MakeWeights(WeightSource(group), request));
  }
  return weights;
}

void GroupedLayer::ResetOps(int64_t rows, bool backward) {
  own_.reset();
  backward_ = backward;
  // An expert computes an item once.
  const MOEParameter& parameter = layer_param().moe_param();
  const int64_t select = parameter.has_select_experts() ? parameter.select_experts() : 1;
  CAFFE_CHECK(select >= 1, Where(), ": moe_param.select_experts ", select, " is not positive");
  rows_ = RowParts(groups_, rows, rows / select);
  joint_ = !device()->host_accessible() && phase() == TEST && !backward && rows > 0 &&
           KnowsJointOp(*weights_[0]);
}

std::unique_ptr<GroupedParts> GroupedLayer::MakeParts(const Epilogue& epilogue,
                                                      JointWeights::Groups weights, bool backward,
                                                      LayoutPair layouts) const {
  const auto make = [&](int64_t rows, std::shared_ptr<OperatorWeights> of_group) {
    try {
      auto op = MakeOp(rows, epilogue, std::move(of_group), backward, layouts);
      op->set_forward_only(phase() == TEST && !backward);
      return op;
    } catch (const Error& error) {
      CAFFE_THROW(Where(), ": ", error.what());
    }
  };
  return std::make_unique<GroupedParts>(rows_, std::move(weights), make);
}

std::unique_ptr<GroupedOp> GroupedLayer::MakeJoint(const Epilogue& epilogue,
                                                   const JointWeights::Groups& weights,
                                                   LayoutPair layouts) const {
  try {
    return MakeJointOp(epilogue, weights, layouts);
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

GroupedOp& GroupedLayer::EnsureOps() {
  if (own_) return *own_;
  if (joint_) {
    own_ = MakeJoint({}, weights_, {});
  } else {
    own_ = MakeParts({}, weights_, backward_, {});
  }
  return *own_;
}

GroupedParts& GroupedLayer::BackwardParts(const BlobVec& bottom) {
  if (!backward_) ResetOps(bottom[0]->shape(0), true);
  if (!own_) PrepareParameters();
  return static_cast<GroupedParts&>(*own_);
}

void GroupedLayer::PrepareParameters() {
  GroupedOp& own = EnsureOps();
  workspace().Need(own.workspace_bytes());
  for (const auto& weights : weights_) {
    if (weights->quantized()) weights->SetRanges(BottomRange(0), TopRange(0));
  }
  try {
    own.Prepare();
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

void GroupedLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!own_) PrepareParameters();
  if (bottom[0]->count() == 0) return;
  GroupedOp::Operands operands{bottom[0], bottom[1], top[0]};
  operands.workspace = workspace().Need(own_->workspace_bytes());
  try {
    own_->Run(operands);
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

LayerFacts GroupedLayer::Facts() const {
  LayerFacts facts;
  facts.host = !device()->host_accessible() && !joint_;
  facts.replayable = joint_;
  facts.layouts.bottoms = 1;
  return facts;
}

// The layer alone, with the layer's own operators.
class GroupedLayer::OwnWork final : public LayerWork {
 public:
  OwnWork(GroupedLayer* layer, const BlobVec& bottom, const BlobVec& top)
      : LayerWork(layer, bottom, top), layer_(layer) {}
  const char* library() const override { return own().library(); }
  int64_t workspace_bytes() const override { return own().workspace_bytes(); }
  void CountMemory(WorkMemory* memory) const override { own().CountMemory(memory); }
  int64_t parameter_bytes() const override { return own().parameter_bytes(); }
  std::optional<int64_t> operations() const override { return 2 * own().products(); }

 private:
  GroupedOp& own() const { return layer_->EnsureOps(); }

  GroupedLayer* layer_;
};

namespace {

class GroupedWork final : public Work {
 public:
  GroupedWork(std::unique_ptr<GroupedOp> op, const WorkRequest& request, const BlobVec& bottom,
              const BlobVec& top)
      : op_(std::move(op)),
        operands_{bottom[0], bottom[1], top[0], request.residual, request.slopes},
        stages_(static_cast<int64_t>(request.stages.size())) {}
  const char* library() const override { return op_->library(); }
  int64_t workspace_bytes() const override { return op_->workspace_bytes(); }
  int64_t parameter_bytes() const override { return op_->parameter_bytes(); }
  std::optional<int64_t> operations() const override {
    return 2 * op_->products() + stages_ * operands_.y->count();
  }
  void CountMemory(WorkMemory* memory) const override { op_->CountMemory(memory); }
  void Prepare() override { op_->Prepare(); }
  void Run(DevicePtr workspace) override {
    operands_.workspace = workspace;
    op_->Run(operands_);
  }

 private:
  std::unique_ptr<GroupedOp> op_;
  GroupedOp::Operands operands_;
  int64_t stages_;
};

}  // namespace

std::unique_ptr<Work> GroupedLayer::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                             const BlobVec& top) {
  const bool alone = request.empty() && request.layouts == LayoutPair{};
  if (alone || bottom[0]->count() == 0) return std::make_unique<OwnWork>(this, bottom, top);
  // Float kinds share the copies of weights; the codes of quantized ones depend on the top's range.
  const bool quantized = types().compute.is_quantized();
  JointWeights::Groups weights =
      request.maps.empty() && !quantized ? weights_ : MakeGroupWeights(request);
  if (quantized) {
    for (const auto& of_group : weights) SetRanges(request, of_group.get());
  }
  const Epilogue epilogue = EpilogueOf(request);
  std::unique_ptr<GroupedOp> op;
  if (joint_ && (quantized || !request.slopes)) {
    op = MakeJoint(epilogue, weights, request.layouts);
  } else {
    op = MakeParts(epilogue, std::move(weights), false, request.layouts);
  }
  return std::make_unique<GroupedWork>(std::move(op), request, bottom, top);
}

}  // namespace caffe
