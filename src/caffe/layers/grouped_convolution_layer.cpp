#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/grouped_layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// One of the layers that compute a MOE layer: a Convolution for each expert, which computes the
// rows of that expert.
//   y[r] = the convolution of x[r] with the weights of the expert of row r, and its bias
// bottom 0: x [rows, C, …]; bottom 1: offsets [E + 1] of MOERoute, always float.
// top 0: [rows, num_output, …]. Not in place.
// blobs: weights and bias of each expert, as in Convolution.
// convolution_param: as in Convolution, with axis 1; moe_param: experts (E), select_experts.
// Types: float kinds; quant8 and quant16 forward: one range for the rows of all experts, weights
// per expert and output channel.
class GroupedConvolution : public GroupedLayer {
 public:
  using GroupedLayer::GroupedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 protected:
  OperatorWeights::Source WeightSource(int group) const override;
  std::unique_ptr<WeightedOp> MakeOp(int64_t rows, const Epilogue& epilogue,
                                     std::shared_ptr<OperatorWeights> weights, bool backward,
                                     LayoutPair layouts) const override;
  std::unique_ptr<GroupedOp> MakeJointOp(const Epilogue& epilogue,
                                         const JointWeights::Groups& weights,
                                         LayoutPair layouts) const override;
  bool KnowsJointOp(const OperatorWeights& weights) const override;

 private:
  // For one expert and so many rows.
  ConvDescriptor Descriptor(int64_t rows) const;
  // For all experts.
  ConvDescriptor JointDescriptor(const Epilogue& epilogue, const OperatorWeights& weights) const;

  ConvSetup setup_;
  Shape input_;
};

template <class Dtype, class MItype, class MOtype>
using GroupedConvolutionLayer = Layer<Dtype, MItype, MOtype, GroupedConvolution>;

void GroupedConvolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  SetUpGroups(bottom);
  setup_ = ConvSetup(Where(), parameter, {bottom[0]}, top);
  CAFFE_CHECK(setup_.axis == 1, Where(), ": axis must be 1");
  const int step = setup_.has_bias ? 2 : 1;
  for (int group = 0; group < groups(); ++group) {
    AddParameter(group * step, setup_.WeightShape(setup_.outputs, setup_.channels / setup_.group),
                 parameter.weight_filler());
    if (setup_.has_bias) {
      AddParameter(group * step + 1, {setup_.outputs}, parameter.bias_filler());
    }
  }
  input_.clear();
  ResetWeights();
}

OperatorWeights::Source GroupedConvolution::WeightSource(int group) const {
  OperatorWeights::Source source;
  source.weights = blobs_[group * per_group()].get();
  if (setup_.has_bias) source.bias = blobs_[group * per_group() + 1].get();
  source.layout.channels = setup_.outputs;
  source.quantizer = QuantizedParameters::Options(layer_param(), setup_.outputs);
  return source;
}

void GroupedConvolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  setup_.CheckBottoms(Where(), {bottom[0]});
  const Shape& input = bottom[0]->shape();
  ConvGeometry geometry{Shape(input.begin() + 2, input.end()), setup_.window.kernel,
                        setup_.window.stride, setup_.window.pad, setup_.window.dilation};
  Shape output = setup_.OutputStart(input);
  if (setup_.spatial_axes() > 0) {
    try {
      geometry.Normalize();
    } catch (...) {
      RethrowIn(Where());
    }
    const Shape extents = geometry.output();
    output.insert(output.end(), extents.begin(), extents.end());
  }
  top[0]->Reshape(output);
  if (input == input_) return;
  input_ = input;
  ResetOps(ShapeCount(input_) > 0 ? input_[0] : 0, phase() == TRAIN && types().compute.is_float());
}

std::unique_ptr<WeightedOp> GroupedConvolution::MakeOp(int64_t rows, const Epilogue& epilogue,
                                                       std::shared_ptr<OperatorWeights> weights,
                                                       bool backward, LayoutPair layouts) const {
  ConvDescriptor d = Descriptor(rows);
  d.x_layout = layouts.x;
  d.y_layout = layouts.y;
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerRow, *weights);
  d.backward_data = d.backward_weights = backward;
  return std::make_unique<WeightedConv>(device(), d, std::move(weights));
}

ConvDescriptor GroupedConvolution::JointDescriptor(const Epilogue& epilogue,
                                                   const OperatorWeights& weights) const {
  ConvDescriptor d = Descriptor(input_[0]);
  d.row_groups = groups();
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerRow, weights);
  return d;
}

std::unique_ptr<GroupedOp> GroupedConvolution::MakeJointOp(const Epilogue& epilogue,
                                                           const JointWeights::Groups& weights,
                                                           LayoutPair layouts) const {
  ConvDescriptor d = JointDescriptor(epilogue, *weights[0]);
  d.x_layout = layouts.x;
  d.y_layout = layouts.y;
  return std::make_unique<JointConv>(device(), d, weights, true);
}

bool GroupedConvolution::KnowsJointOp(const OperatorWeights& weights) const {
  return Multiplexer::KnowsRowGroups(device(), JointDescriptor({}, weights));
}

ConvDescriptor GroupedConvolution::Descriptor(int64_t rows) const {
  Shape input = input_;
  input[0] = rows;
  return setup_.Descriptor(input, types());
}

LayerFacts GroupedConvolution::Facts() const {
  LayerFacts facts = GroupedLayer::Facts();
  LayerFacts::Stages stages;
  stages.channels = setup_.outputs;
  stages.folds = stages.sums = stages.activates = true;
  stages.curves = types().compute.is_float();
  facts.own_stages = stages;
  if (setup_.spatial_axes() == 0 || sizes().empty()) return facts;
  // Each operator has a library of its own.
  std::vector<ConvDescriptor> operators;
  if (joint()) {
    operators.push_back(Descriptor(input_[0]));
    operators.back().row_groups = groups();
  } else {
    for (const int64_t rows : sizes()) operators.push_back(Descriptor(rows));
  }
  LayerFacts::Layouts all = ConvLayouts(device(), operators.back());
  for (const ConvDescriptor& d : operators) {
    const LayerFacts::Layouts one = ConvLayouts(device(), d);
    all.nhwc &= one.nhwc;
    all.reads_nchw &= one.reads_nchw;
  }
  all.prefers_nhwc &= all.nhwc;
  all.parts = false;
  all.bottoms = facts.layouts.bottoms;
  facts.layouts = all;
  return facts;
}

void GroupedConvolution::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                                  const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (bottom[0]->count() == 0) return;
  GroupedParts& ops = BackwardParts(bottom);
  for (const RowParts::Part& part : ops.Find(*bottom[1])) {
    auto& own = static_cast<WeightedConv&>(ops.op(part));
    ConvOp& conv = own.conv();
    ConvGradients gradients = own.Gradients(workspace().Need(conv.workspace_bytes()));
    gradients.y_diff = Row(top[0]->device_diff(), part.begin, *top[0]);
    const int weights = part.group * per_group();
    if (setup_.has_bias && param_propagate_down(weights + 1)) {
      gradients.b_diff = blobs_[weights + 1]->mutable_device_diff();
      conv.BackwardBias(gradients);
    }
    if (param_propagate_down(weights)) {
      gradients.x = Row(bottom[0]->device_data(), part.begin, *bottom[0]);
      gradients.w_diff = blobs_[weights]->mutable_device_diff();
      conv.BackwardWeights(gradients);
    }
    if (propagate_down[0]) {
      gradients.x_diff = Row(bottom[0]->mutable_device_diff(), part.begin, *bottom[0]);
      conv.BackwardData(gradients);
    }
  }
}

}  // namespace

void RegisterGroupedConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.float_bottoms = traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "a part of MOE: a Convolution for each expert";
  registry.Add<GroupedConvolutionLayer>("GroupedConvolution", traits);
}

}  // namespace caffe
