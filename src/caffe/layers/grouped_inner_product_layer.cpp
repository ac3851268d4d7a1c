#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/grouped_layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// One of the layers that compute a MOE layer: an InnerProduct for each expert, which computes the
// rows of that expert.
//   y[r] = W x[r] + b with the weights and the bias of the expert of row r
// bottom 0: x [rows, …]; bottom 1: offsets [E + 1] of MOERoute, always float.
// top 0: [rows, num_output]. Not in place.
// blobs: weights and bias of each expert, as in InnerProduct.
// inner_product_param: as in InnerProduct, with axis 1; moe_param: experts (E), select_experts.
// Types: float kinds; quant8 and quant16 forward: one range for the rows of all experts, weights
// per expert and output.
class GroupedInnerProduct : public GroupedLayer {
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
  GemmDescriptor Descriptor(int64_t rows, const Epilogue& epilogue,
                            const OperatorWeights& weights) const;
  // For all experts.
  GemmDescriptor JointDescriptor(const Epilogue& epilogue, const OperatorWeights& weights) const;
  void MakeBackward();

  int64_t n_ = 0, k_ = 0, rows_ = -1;
  bool has_bias_ = true, transpose_ = false;
  // One for each size of parts.
  std::vector<std::unique_ptr<GemmOp>> backward_data_, backward_weights_;
  std::vector<std::unique_ptr<BiasOp>> backward_bias_;
};

template <class Dtype, class MItype, class MOtype>
using GroupedInnerProductLayer = Layer<Dtype, MItype, MOtype, GroupedInnerProduct>;

void GroupedInnerProduct::LayerSetUp(const BlobVec& bottom, const BlobVec&) {
  const InnerProductParameter& parameter = layer_param().inner_product_param();
  SetUpGroups(bottom);
  n_ = parameter.num_output();
  CAFFE_CHECK(n_ > 0, Where(), ": num_output must be given and positive");
  CAFFE_CHECK(bottom[0]->CanonicalAxisIndex(parameter.axis()) == 1, Where(), ": axis must be 1");
  has_bias_ = parameter.bias_term();
  transpose_ = parameter.transpose();
  k_ = bottom[0]->count(1);
  const Shape shape = transpose_ ? Shape{k_, n_} : Shape{n_, k_};
  const int step = has_bias_ ? 2 : 1;
  for (int group = 0; group < groups(); ++group) {
    AddParameter(group * step, shape, parameter.weight_filler());
    if (has_bias_) AddParameter(group * step + 1, {n_}, parameter.bias_filler());
  }
  rows_ = -1;
  ResetWeights();
}

OperatorWeights::Source GroupedInnerProduct::WeightSource(int group) const {
  OperatorWeights::Source source;
  source.weights = blobs_[group * per_group()].get();
  if (has_bias_) source.bias = blobs_[group * per_group() + 1].get();
  source.layout.channels = n_;
  if (transpose_) source.layout.outer = k_;
  source.quantizer = QuantizedParameters::Options(layer_param(), n_);
  return source;
}

void GroupedInnerProduct::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() > 1 && bottom[0]->count(1) == k_, Where(),
              ": the bottom of shape ", bottom[0]->shape_string(), " does not have the ", k_,
              " inputs for which the weights were made");
  const int64_t rows = bottom[0]->shape(0);
  top[0]->Reshape({rows, n_});
  if (rows == rows_) return;
  rows_ = rows;
  ResetOps(rows, phase() == TRAIN && types().compute.is_float());
  backward_data_.clear();
  if (backward()) MakeBackward();
}

std::unique_ptr<WeightedOp> GroupedInnerProduct::MakeOp(int64_t rows, const Epilogue& epilogue,
                                                        std::shared_ptr<OperatorWeights> weights,
                                                        bool, LayoutPair) const {
  const GemmDescriptor d = Descriptor(rows, epilogue, *weights);
  return std::make_unique<WeightedGemm>(device(), d, std::move(weights));
}

GemmDescriptor GroupedInnerProduct::Descriptor(int64_t rows, const Epilogue& epilogue,
                                               const OperatorWeights& weights) const {
  GemmDescriptor d;
  d.m = rows;
  d.n = n_;
  d.k = k_;
  // Quantized weights are a copy, which is never transposed.
  d.trans_b = weights.quantized() || !transpose_;
  d.in = types().in;
  d.out = types().out;
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerColumn, weights);
  // Float weights are not prepared: each size would have a copy of its own.
  return d;
}

GemmDescriptor GroupedInnerProduct::JointDescriptor(const Epilogue& epilogue,
                                                    const OperatorWeights& weights) const {
  GemmDescriptor d = Descriptor(rows_, epilogue, weights);
  d.constant = GemmDescriptor::Weights::kB;
  d.row_groups = groups();
  return d;
}

std::unique_ptr<GroupedOp> GroupedInnerProduct::MakeJointOp(const Epilogue& epilogue,
                                                            const JointWeights::Groups& weights,
                                                            LayoutPair) const {
  return std::make_unique<JointGemm>(device(), JointDescriptor(epilogue, *weights[0]), weights,
                                     true);
}

bool GroupedInnerProduct::KnowsJointOp(const OperatorWeights& weights) const {
  return k_ > 0 && Multiplexer::KnowsRowGroups(device(), JointDescriptor({}, weights));
}

void GroupedInnerProduct::MakeBackward() {
  backward_data_.clear();
  backward_weights_.clear();
  backward_bias_.clear();
  for (const int64_t rows : sizes()) {
    GemmDescriptor data;
    data.m = rows;
    data.n = k_;
    data.k = n_;
    data.trans_b = transpose_;
    data.in = data.out = types().compute;
    backward_data_.push_back(Multiplexer::Gemm(device(), data));
    GemmDescriptor weights;
    weights.trans_a = true;
    weights.m = transpose_ ? k_ : n_;
    weights.n = transpose_ ? n_ : k_;
    weights.k = rows;
    weights.in = types().compute;
    weights.out = master_type();
    backward_weights_.push_back(Multiplexer::Gemm(device(), weights));
    backward_bias_.push_back(std::make_unique<BiasOp>(device(), types().compute, master_type(),
                                                      rows, n_, 1, std::nullopt, true));
    workspace().Need(std::max(backward_data_.back()->workspace_bytes(),
                              backward_weights_.back()->workspace_bytes()));
  }
}

void GroupedInnerProduct::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                                   const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (bottom[0]->count() == 0) return;
  GroupedParts& ops = BackwardParts(bottom);
  if (backward_data_.empty()) MakeBackward();
  for (const RowParts::Part& part : ops.Find(*bottom[1])) {
    const DevicePtr y_diff = Row(top[0]->device_diff(), part.begin, *top[0]);
    const int first = part.group * per_group();
    if (param_propagate_down(first)) {
      GemmOp& op = *backward_weights_[part.size];
      const DevicePtr x = Row(bottom[0]->device_data(), part.begin, *bottom[0]);
      GemmArguments product{transpose_ ? x : y_diff, transpose_ ? y_diff : x,
                            blobs_[first]->mutable_device_diff()};
      product.beta = 1;
      product.workspace = workspace().Need(op.workspace_bytes());
      op.Run(product);
    }
    if (has_bias_ && param_propagate_down(first + 1)) {
      backward_bias_[part.size]->Backward(y_diff, blobs_[first + 1]->mutable_device_diff(), {});
    }
    if (propagate_down[0]) {
      GemmOp& op_data = *backward_data_[part.size];
      GemmArguments product{y_diff, ops.op(part).weights().weights().device_data(),
                            Row(bottom[0]->mutable_device_diff(), part.begin, *bottom[0])};
      product.workspace = workspace().Need(op_data.workspace_bytes());
      op_data.Run(product);
    }
  }
}

LayerFacts GroupedInnerProduct::Facts() const {
  LayerFacts facts = GroupedLayer::Facts();
  LayerFacts::Stages stages;
  stages.channels = n_;
  stages.folds = stages.activates = true;
  stages.sums = stages.curves = types().compute.is_float();
  facts.own_stages = stages;
  return facts;
}

}  // namespace

void RegisterGroupedInnerProductLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.float_bottoms = traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "a part of MOE: an InnerProduct for each expert";
  registry.Add<GroupedInnerProductLayer>("GroupedInnerProduct", traits);
}

}  // namespace caffe
