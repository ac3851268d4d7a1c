#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// y = x W' + b, where x is bottom 0 as a matrix [M, K]: axes before `axis` are rows.
//   dE/dx = dE/dy W,  dE/dW += (dE/dy)' x,  dE/db += the column sums of dE/dy
// bottom 0: [d0, …, K…]; top 0: [d0, …, num_output]. Not in place.
// blobs: weights [num_output, K] ([K, num_output] with transpose), bias [num_output].
// inner_product_param: num_output, bias_term (true), weight_filler, bias_filler, axis (1),
//   transpose (false).
// Types: float kinds; quant8 and quant16 forward, per output unless blobs_quantizer(0) says
// per_tensor, see QuantizedParameters. Weights and bias are masters (float, double for double).
class InnerProduct : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  void CountMemory(WorkMemory* memory) const override;
  int64_t input_rows() const override { return m_; }
  void GatherRows(const std::vector<float>& values, int64_t group, const std::vector<int64_t>& rows,
                  float* to) const override;
  std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue,
                                     std::shared_ptr<OperatorWeights> weights, bool backward,
                                     LayoutPair layouts) const override;

 protected:
  OperatorWeights::Source WeightSource() const override;
  void OnResetOps() override;

 private:
  void MakeBackward();
  // Whether the operators pack the weights for several steps of a recurrent layer.
  bool PreparesForSteps() const;

  int64_t m_ = -1, n_ = 0, k_ = 0;
  int axis_ = 1;
  bool has_bias_ = true, transpose_ = false;
  std::unique_ptr<GemmOp> backward_data_, backward_weights_;
  std::shared_ptr<PreparedWeights> prepared_data_;  // for backward_data_, of the first backward
  std::unique_ptr<BiasOp> backward_bias_;
};

template <class Dtype, class MItype, class MOtype>
using InnerProductLayer = Layer<Dtype, MItype, MOtype, InnerProduct>;

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

void InnerProduct::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const InnerProductParameter& parameter = layer_param().inner_product_param();
  n_ = parameter.num_output();
  CAFFE_CHECK(n_ > 0, Where(), ": num_output must be given and positive");
  has_bias_ = parameter.bias_term();
  transpose_ = parameter.transpose();
  axis_ = bottom[0]->CanonicalAxisIndex(parameter.axis());
  k_ = bottom[0]->count(axis_);
  const Shape shape = transpose_ ? Shape{k_, n_} : Shape{n_, k_};
  AddParameter(0, shape, parameter.weight_filler());
  if (has_bias_) AddParameter(1, {n_}, parameter.bias_filler());
  m_ = -1;
  SetUpWeights(bottom.size());
}

OperatorWeights::Source InnerProduct::WeightSource() const {
  OperatorWeights::Source source;
  source.weights = blobs_[0].get();
  if (has_bias_) source.bias = blobs_[1].get();
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
  const int64_t m = bottom[0]->count(0, axis_);
  if (m == m_) return;
  m_ = m;
  ResetOps(false);
  backward_data_.reset();
  if (phase() == TRAIN && types().compute.is_float()) MakeBackward();
}

std::unique_ptr<WeightedOp> InnerProduct::MakeOp(const Epilogue& epilogue,
                                                 std::shared_ptr<OperatorWeights> weights, bool,
                                                 LayoutPair) const {
  if (m_ == 0) return nullptr;
  GemmDescriptor d;
  d.m = m_;
  d.n = n_;
  d.k = k_;
  // Quantized weights are a copy, which is never transposed.
  d.trans_b = weights->quantized() || !transpose_;
  d.in = types().in;
  d.out = types().out;
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerColumn, *weights);
  // In training the weights change before each product: preparing them apart would gain nothing,
  // unless steps share them.
  if (phase() == TEST || PreparesForSteps()) d.constant = GemmDescriptor::Weights::kB;
  return std::make_unique<WeightedGemm>(device(), d, std::move(weights));
}

bool InnerProduct::PreparesForSteps() const {
  return shares_weights() && device()->host_accessible();
}

void InnerProduct::OnResetOps() {
  prepared_data_.reset();
  const bool prepares = PreparesForSteps();
  if (!backward_data_) return;
  if ((backward_data_->descriptor().constant != GemmDescriptor::Weights::kNone) == prepares) return;
  backward_data_.reset();
  if (m_ > 0) MakeBackward();
}

void InnerProduct::CountMemory(WorkMemory* memory) const {
  if (backward_data_) memory->derived += backward_data_->prepared_bytes();
}

void InnerProduct::MakeBackward() {
  if (m_ == 0) return;
  GemmDescriptor data;
  data.m = m_;
  data.n = k_;
  data.k = n_;
  data.trans_b = transpose_;
  data.in = data.out = types().compute;
  if (PreparesForSteps()) data.constant = GemmDescriptor::Weights::kB;
  backward_data_ = Multiplexer::Gemm(device(), data);
  prepared_data_.reset();
  GemmDescriptor weights;
  weights.trans_a = true;
  weights.m = transpose_ ? k_ : n_;
  weights.n = transpose_ ? n_ : k_;
  weights.k = m_;
  weights.in = types().compute;
  weights.out = master_type();
  backward_weights_ = Multiplexer::Gemm(device(), weights);
  if (has_bias_) {
    backward_bias_ = std::make_unique<BiasOp>(device(), types().compute, master_type(), m_, n_, 1,
                                              std::nullopt, true);
  }
  workspace().Need(
      std::max(backward_data_->workspace_bytes(), backward_weights_->workspace_bytes()));
}

void InnerProduct::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                            const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (m_ == 0) return;
  CAFFE_CHECK(types().in == types().out, Where(), ": has no backward pass from a top of type ",
              types().out.name(), " to a bottom of type ", types().in.name(),
              "; with force_backward: true, the net converts the gradient");
  if (!backward_data_) MakeBackward();
  const DevicePtr y_diff = top[0]->device_diff();
  if (param_propagate_down(0)) {
    const DevicePtr x = bottom[0]->device_data();
    GemmArguments product{transpose_ ? x : y_diff, transpose_ ? y_diff : x,
                          blobs_[0]->mutable_device_diff()};
    product.beta = 1;
    product.workspace = workspace().Need(backward_weights_->workspace_bytes());
    backward_weights_->Run(product);
  }
  if (has_bias_ && param_propagate_down(1)) {
    backward_bias_->Backward(y_diff, blobs_[1]->mutable_device_diff(), {});
  }
  if (propagate_down[0]) {
    EnsureOps();
    OperatorWeights& weights = op(0).weights();
    GemmArguments product{y_diff, weights.weights().device_data(),
                          bottom[0]->mutable_device_diff()};
    if (backward_data_->prepared_bytes() > 0) {
      if (!prepared_data_) {
        prepared_data_ = weights.Prepared(*backward_data_, backward_data_->descriptor().key());
      }
      prepared_data_->By(backward_data_.get())->Refresh();
      product.prepared = prepared_data_->data();
    }
    workspace().Next();
    product.workspace = workspace().Need(backward_data_->workspace_bytes());
    backward_data_->Run(product);
  }
}

void InnerProduct::GatherRows(const std::vector<float>& values, int64_t,
                              const std::vector<int64_t>& rows, float* to) const {
  for (const int64_t row : rows) to = std::copy_n(values.begin() + row * k_, k_, to);
}

LayerFacts InnerProduct::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  LayerFacts::Weighted weighted;
  weighted.axis = axis_;
  weighted.channels = n_;
  weighted.outer = transpose_ ? k_ : 1;
  weighted.has_bias = has_bias_;
  weighted.folds = weighted.activates = true;
  weighted.sums = weighted.curves = types().compute.is_float();
  if (types().compute.is_quantized()) weighted.code_scales = [this] { return CodeScales(); };
  facts.weighted = std::move(weighted);
  return facts;
}

}  // namespace

void RegisterInnerProductLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{0}, {}});
  traits.edges = &ProductEdges;
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
}

}  // namespace caffe
