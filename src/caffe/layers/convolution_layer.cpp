#include "convolution_layer.hpp"

#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

template <class Dtype, class MItype, class MOtype>
using ConvolutionLayer = Layer<Dtype, MItype, MOtype, Convolution>;

// GroupedForm::joint, asked for numbers that every library supports.
bool KnowsGroups(DataType type, Device* device) {
  ConvDescriptor d;
  d.batch = 16;
  d.row_groups = 4;
  d.in_channels = d.out_channels = 64;
  d.geometry.input = {8, 8};
  d.geometry.kernel = {3, 3};
  d.in = d.out = type;
  d.x_layout = d.y_layout = Layout::kNHWC;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.epilogue.bias_type = d.master();
  return Multiplexer::KnowsRowGroups(device, d);
}

}  // namespace

void Convolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  setup_ = ConvSetup(Where(), parameter, bottom, top);
  AddParameter(0, setup_.WeightShape(setup_.outputs, setup_.channels / setup_.group),
               parameter.weight_filler());
  if (setup_.has_bias) AddParameter(1, {setup_.outputs}, parameter.bias_filler());
  input_.clear();
  SetUpWeights(bottom.size());
}

OperatorWeights::Source Convolution::WeightSource() const {
  OperatorWeights::Source source;
  source.weights = blobs_[0].get();
  if (setup_.has_bias) source.bias = blobs_[1].get();
  source.layout.channels = setup_.outputs;
  source.quantizer = QuantizedParameters::Options(layer_param(), setup_.outputs);
  return source;
}

void Convolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  setup_.CheckBottoms(Where(), bottom);
  const Shape& input = bottom[0]->shape();
  const ConvWindow& window = setup_.window;
  Shape output = setup_.OutputStart(input);
  for (int i = 0; i < setup_.spatial_axes(); ++i) {
    const int64_t extent = input[setup_.axis + 1 + i], padded = extent + 2 * window.pad[i];
    CAFFE_CHECK(padded - window.extent(i) > -window.stride[i], Where(), ": the window of ",
                window.extent(i), " on spatial axis ", i, " is larger than the input of ", extent,
                " padded by ", window.pad[i], "; with stride ", window.stride[i],
                " there is no output");
    // The quotient is rounded towards 0: see ConvGeometry.
    output.push_back((padded - window.extent(i)) / window.stride[i] + 1);
  }
  for (BlobBase* blob : top) blob->Reshape(output);
  if (input == input_) return;
  input_ = input;
  ResetOps(phase() == TRAIN);
}

std::unique_ptr<WeightedOp> Convolution::MakeOp(const Epilogue& epilogue,
                                                std::shared_ptr<OperatorWeights> weights,
                                                bool backward, LayoutPair layouts) const {
  if (ShapeCount(input_) == 0) return nullptr;
  ConvDescriptor d = setup_.Descriptor(input_, types());
  d.x_layout = layouts.x;
  d.y_layout = layouts.y;
  d.y_pitch = layouts.y_pitch;
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerRow, *weights);
  d.backward_weights = backward && !weights->quantized();
  // With two layouts, the gradient of the bottom is not wanted.
  d.backward_data = d.backward_weights && layouts.x == layouts.y;
  return std::make_unique<WeightedConv>(device(), d, std::move(weights));
}

void Convolution::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                           const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  CAFFE_CHECK(types().in == types().out, Where(), ": has no backward pass from a top of type ",
              types().out.name(), " to a bottom of type ", types().in.name(),
              "; with force_backward: true, the net converts the gradient");
  if (!EnsureOps()) return;
  if (!Own().conv().descriptor().backward_data) {
    ResetOps(true);
    PrepareParameters();
  }
  BackwardBy(&Own(), top, propagate_down, bottom);
}

void Convolution::BackwardBy(WeightedOp* op, const BlobVec& top,
                             const std::vector<bool>& propagate_down, const BlobVec& bottom) {
  auto& own = static_cast<WeightedConv&>(*op);
  ConvOp& conv = own.conv();
  ConvGradients gradients = own.Gradients({});
  const auto next = [&] {
    workspace().Next();
    gradients.workspace = workspace().Need(conv.workspace_bytes());
  };
  for (size_t i = 0; i < top.size(); ++i) {
    gradients.y_diff = top[i]->device_diff();
    if (setup_.has_bias && param_propagate_down(1)) {
      next();
      gradients.b_diff = blobs_[1]->mutable_device_diff();
      conv.BackwardBias(gradients);
    }
    if (param_propagate_down(0)) {
      next();
      gradients.x = bottom[i]->device_data();
      gradients.w_diff = blobs_[0]->mutable_device_diff();
      conv.BackwardWeights(gradients);
    }
    if (propagate_down[i]) {
      next();
      gradients.x_diff = bottom[i]->mutable_device_diff();
      conv.BackwardData(gradients);
    }
  }
}

int64_t Convolution::input_rows() const {
  ConvDescriptor d = setup_.Descriptor(input_, types());
  d.geometry.Normalize();
  return d.batch * d.geometry.output_count();
}

void Convolution::GatherRows(const std::vector<float>& values, int64_t group,
                             const std::vector<int64_t>& rows, float* to) const {
  const ConvDescriptor d = setup_.Descriptor(input_, types());
  ConvGeometry g = d.geometry;
  g.Normalize();
  const Shape output = g.output();
  const int64_t channels = d.in_channels / d.group, taps = g.kernel_count(),
                outs = g.output_count();
  std::vector<int64_t> offsets(taps);  // of the taps in a channel; -1: padding
  for (const int64_t row : rows) {
    const int64_t item = row / outs;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t position = row % outs, k = tap, stride = 1, offset = 0;
      bool inside = true;
      for (int a = g.axes(); a-- > 0;) {
        const int64_t x =
            position % output[a] * g.stride[a] + k % g.kernel[a] * g.dilation[a] - g.pad[a];
        inside &= x >= 0 && x < g.input[a];
        offset += x * stride;
        stride *= g.input[a];
        position /= output[a];
        k /= g.kernel[a];
      }
      offsets[tap] = inside ? offset : -1;
    }
    const float* from = values.data() + (item * d.in_channels + group * channels) * g.input_count();
    for (int64_t c = 0; c < channels; ++c, from += g.input_count()) {
      for (const int64_t offset : offsets) *to++ = offset < 0 ? 0 : from[offset];
    }
  }
}

LayerFacts Convolution::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  LayerFacts::Weighted weighted;
  weighted.axis = setup_.axis;
  weighted.channels = setup_.outputs;
  weighted.has_bias = setup_.has_bias;
  weighted.folds = weighted.activates = true;
  weighted.sums = true;
  weighted.curves = types().compute.is_float();
  if (types().compute.is_quantized()) weighted.code_scales = [this] { return CodeScales(); };
  facts.weighted = std::move(weighted);
  const bool images = setup_.axis == 1 && setup_.spatial_axes() > 0 && !input_.empty();
  if (images && ShapeCount(input_) > 0) {
    ConvDescriptor d = setup_.Descriptor(input_, types());
    d.backward_data = d.backward_weights = phase() == TRAIN && types().compute.is_float();
    facts.layouts = ConvLayouts(device(), d);
  }
  return facts;
}

void RegisterConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.edges = &ProductEdges;
  traits.grouped_form = [](const LayerParameter& layer) -> std::optional<GroupedForm> {
    const ConvolutionParameter& parameter = layer.convolution_param();
    if (parameter.axis() != 1) return std::nullopt;
    return GroupedForm{"GroupedConvolution", 1 + parameter.bias_term(), &KnowsGroups};
  };
  traits.summary = "cross-correlation over any number of spatial axes, with groups and dilation";
  registry.Add<ConvolutionLayer>("Convolution", traits);
}

}  // namespace caffe
