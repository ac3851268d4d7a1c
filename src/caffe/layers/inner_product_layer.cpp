#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/device/device.hpp"
#include "caffe/layer/dynamic_product.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {
namespace {

// y = x W' + b, where x is bottom 0 as a matrix [M, K]: axes before `axis` are rows.
//   dE/dx = dE/dy W,  dE/dW += (dE/dy)' x,  dE/db += the column sums of dE/dy
// bottom 0: [d0, …, K…]; top 0: [d0, …, num_output]. Not in place.
// blobs: weights [num_output, K] ([K, num_output] with transpose), bias [num_output].
// inner_product_param: num_output, bias_term (true), weight_filler, bias_filler, axis (1),
//   transpose (false).
// Types: float kinds; quant8 and quant16 forward, per output unless blobs_quantizer(0) says
// per_tensor, see QuantizedParameters. Sums of quant8 may be stored as float. Weights and bias are
// masters (float, double for double).
//
// GroupedInnerProduct is one of the layers that compute a MOE layer: an InnerProduct for each
// expert, which computes the rows of that expert.
// bottom 0: x [rows, …]; bottom 1: offsets [E + 1] of MOERoute, always float.
// top 0: [rows, num_output].
// blobs: weights and bias of each expert, one expert after the other.
// inner_product_param: with axis 1; moe_param: experts (E), select_experts.
// In quantized types there is one range for the rows of all experts.
class InnerProduct : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  int64_t input_rows() const override { return rows(); }
  void GatherRows(const std::vector<float>& values, int64_t group, const std::vector<int64_t>& rows,
                  float* to) const override;

 protected:
  OperatorWeights::Source WeightSource() const override;
  std::unique_ptr<LibraryOp> MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                           const JointWeights::Groups& weights, bool backward,
                                           LayoutPair layouts) const override;
  bool KnowsAllGroups(const JointWeights::Groups& weights) const override;

 private:
  // For so many rows and the groups of these weights.
  GemmDescriptor Descriptor(int64_t rows, const Epilogue& epilogue,
                            const JointWeights::Groups& weights) const;
  // Whether the operators pack the weights for several steps of a recurrent layer.
  bool PreparesForSteps() const { return shares_weights() && device()->host_accessible(); }

  int64_t n_ = 0, k_ = 0;
  int axis_ = 1;
  bool has_bias_ = true, transpose_ = false;
};

template <class Dtype, class MItype, class MOtype>
using InnerProductLayer = Layer<Dtype, MItype, MOtype, InnerProduct>;
template <class Dtype, class MItype, class MOtype>
using GroupedInnerProductLayer = Layer<Dtype, MItype, MOtype, Grouped<InnerProduct>>;

// GroupedForm::joint, asked for numbers that every library supports.
bool KnowsGroups(bool transpose, DataType type, Device* device) {
  GemmDescriptor d;
  d.m = 16;
  d.row_groups = 4;
  d.n = d.k = 64;
  d.trans_b = type.is_quantized() || !transpose;
  d.in = d.out = type;
  d.constant = GemmDescriptor::Weights::kB;
  d.epilogue.bias = Epilogue::Bias::kPerColumn;
  d.epilogue.bias_type = type == kDouble ? kDouble : kFloat;
  return Multiplexer::KnowsRowGroups(device, d);
}

void InnerProduct::LayerSetUp(const BlobVec& bottom, const BlobVec&) {
  const InnerProductParameter& parameter = layer_param().inner_product_param();
  SetUpGroups(bottom, parameter.axis());
  n_ = parameter.num_output();
  CAFFE_CHECK(n_ > 0, Where(), ": num_output must be given and positive");
  has_bias_ = parameter.bias_term();
  transpose_ = parameter.transpose();
  axis_ = bottom[0]->CanonicalAxisIndex(parameter.axis());
  k_ = bottom[0]->count(axis_);
  AddWeights(transpose_ ? Shape{k_, n_} : Shape{n_, k_}, parameter.weight_filler(),
             has_bias_ ? n_ : 0, parameter.bias_filler());
  SetUpWeights(1);
}

OperatorWeights::Source InnerProduct::WeightSource() const {
  OperatorWeights::Source source;
  source.layout.channels = n_;
  if (transpose_) source.layout.outer = k_;
  source.quantizer = QuantizedParameters::Options(layer_param(), n_);
  return source;
}

void InnerProduct::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= axis_ && bottom[0]->count(axis_) == k_, Where(),
              ": the bottom of shape ", bottom[0]->shape_string(), " has ",
              bottom[0]->num_axes() >= axis_ ? bottom[0]->count(axis_) : 0, " inputs from axis ",
              axis_, ", but the weights were made for ", k_);
  Shape shape(bottom[0]->shape().begin(), bottom[0]->shape().begin() + axis_);
  shape.push_back(n_);
  top[0]->Reshape(shape);
  const int64_t rows = bottom[0]->count(0, axis_);
  // Without inputs the result is the bias.
  if (rows != this->rows()) ResetOps(rows, *bottom[0], *top[0]);
}

GemmDescriptor InnerProduct::Descriptor(int64_t rows, const Epilogue& epilogue,
                                        const JointWeights::Groups& weights) const {
  GemmDescriptor d;
  d.m = rows;
  d.n = n_;
  d.k = k_;
  if (weights.size() > 1) d.row_groups = static_cast<int64_t>(weights.size());
  // Quantized weights are a copy, which is never transposed.
  d.trans_b = weights[0]->quantized() || !transpose_;
  d.in = types().in;
  d.out = types().out;
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerColumn, *weights[0]);
  // In training the weights change before each product: preparing them apart would gain nothing,
  // unless steps share them. Of parts of groups, each size would have a copy of its own.
  const bool all = static_cast<int>(weights.size()) == groups();
  if (all && (phase() == TEST || PreparesForSteps())) d.constant = GemmDescriptor::Weights::kB;
  return d;
}

std::unique_ptr<LibraryOp> InnerProduct::MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                                       const JointWeights::Groups& weights,
                                                       bool backward, LayoutPair) const {
  if (dynamic()) {
    return std::make_unique<DynamicProduct>(device(), Descriptor(rows, epilogue, weights), weights);
  }
  std::optional<GemmDescriptor::Weights> for_data;
  if (backward) {
    for_data = PreparesForSteps() ? GemmDescriptor::Weights::kB : GemmDescriptor::Weights::kNone;
  }
  return std::make_unique<WeightedGemm>(device(), Descriptor(rows, epilogue, weights), weights,
                                        for_data);
}

bool InnerProduct::KnowsAllGroups(const JointWeights::Groups& weights) const {
  return k_ > 0 && Multiplexer::KnowsRowGroups(device(), Descriptor(rows(), {}, weights));
}

void InnerProduct::GatherRows(const std::vector<float>& values, int64_t,
                              const std::vector<int64_t>& rows, float* to) const {
  for (const int64_t row : rows) to = std::copy_n(values.begin() + row * k_, k_, to);
}

LayerFacts InnerProduct::Facts() const {
  LayerFacts::Weighted weighted;
  weighted.axis = axis_;
  weighted.channels = n_;
  weighted.outer = transpose_ ? k_ : 1;
  weighted.has_bias = has_bias_;
  // No stage follows the values of sums of codes.
  const bool values = types().in.is_quantized() && types().out.is_float();
  weighted.folds = !values;
  weighted.activates = !values && !dynamic();
  weighted.sums = weighted.curves = types().compute.is_float();
  return FactsOf(std::move(weighted));
}

}  // namespace

void RegisterInnerProductLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{0}, {}});
  traits.edges = &ProductOrCodeEdges;
  traits.dynamic = Always(true);
  traits.grouped_form = [](const LayerParameter& layer) -> std::optional<GroupedForm> {
    const InnerProductParameter& parameter = layer.inner_product_param();
    if (parameter.axis() != 1) return std::nullopt;
    const auto joint = [transpose = parameter.transpose()](DataType type, Device* device) {
      return KnowsGroups(transpose, type, device);
    };
    return GroupedForm{"GroupedInnerProduct", 1 + parameter.bias_term(), joint};
  };
  traits.summary = "y = x W' + b";
  registry.Add<InnerProductLayer>("InnerProduct", traits);
  registry.Add<GroupedInnerProductLayer>(
      "GroupedInnerProduct", GroupedTraits("a part of MOE: an InnerProduct for each expert"));
}

}  // namespace caffe
