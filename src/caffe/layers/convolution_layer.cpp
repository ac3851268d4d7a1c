#include "convolution_layer.hpp"

#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/dynamic_product.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {
namespace {

template <class Dtype, class MItype, class MOtype>
using ConvolutionLayer = Layer<Dtype, MItype, MOtype, Convolution>;
template <class Dtype, class MItype, class MOtype>
using GroupedConvolutionLayer = Layer<Dtype, MItype, MOtype, Grouped<Convolution>>;

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
  SetUpGroups(bottom, parameter.axis());
  setup_ = ConvSetup(Where(), parameter, Inputs(bottom), top);
  AddWeights(setup_.WeightShape(setup_.outputs, setup_.channels / setup_.group),
             parameter.weight_filler(), setup_.has_bias ? setup_.outputs : 0,
             parameter.bias_filler());
  input_.clear();
  SetUpWeights(top.size());
}

OperatorWeights::Source Convolution::WeightSource() const {
  OperatorWeights::Source source;
  source.layout.channels = setup_.outputs;
  source.quantizer = QuantizedParameters::Options(layer_param(), setup_.outputs);
  return source;
}

void Convolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  setup_.CheckBottoms(Where(), Inputs(bottom));
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
  // The libraries know no windows over empty images.
  ResetOps(ShapeCount(input_) > 0 ? ShapeCount(input_, 0, setup_.axis) : 0, *bottom[0], *top[0]);
}

ConvDescriptor Convolution::Descriptor(int64_t rows, const Epilogue& epilogue,
                                       const JointWeights::Groups& weights) const {
  ConvDescriptor d = setup_.Descriptor(input_, types());
  d.batch = rows;
  if (weights.size() > 1) d.row_groups = static_cast<int64_t>(weights.size());
  d.epilogue = Completed(epilogue, Epilogue::Bias::kPerRow, *weights[0]);
  return d;
}

std::unique_ptr<LibraryOp> Convolution::MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                                      const JointWeights::Groups& weights,
                                                      bool backward, LayoutPair layouts) const {
  ConvDescriptor d = Descriptor(rows, epilogue, weights);
  if (dynamic()) return std::make_unique<DynamicProduct>(device(), std::move(d), weights);
  d.x_layout = layouts.x;
  d.y_layout = layouts.y;
  d.y_pitch = layouts.y_pitch;
  d.backward_weights = backward;
  // With two layouts, the gradient of the bottom is not wanted.
  d.backward_data = backward && layouts.x == layouts.y;
  return std::make_unique<WeightedConv>(device(), d, weights);
}

bool Convolution::KnowsAllGroups(const JointWeights::Groups& weights) const {
  return Multiplexer::KnowsRowGroups(device(), Descriptor(rows(), {}, weights));
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
  LayerFacts::Weighted weighted;
  weighted.axis = setup_.axis;
  weighted.channels = setup_.outputs;
  weighted.has_bias = setup_.has_bias;
  weighted.folds = true;
  // Stages of codes would need ranges that are known before the forward.
  weighted.activates = weighted.sums = !dynamic();
  weighted.curves = types().compute.is_float();
  LayerFacts facts = FactsOf(std::move(weighted));
  if (dynamic() || setup_.axis != 1 || setup_.spatial_axes() == 0 || rows() <= 0) return facts;
  facts.layouts = Layouts();
  return facts;
}

LayerFacts::Layouts Convolution::Layouts() const {
  ConvDescriptor d = setup_.Descriptor(input_, types());
  d.backward_data = d.backward_weights =
      !grouped() && phase() == TRAIN && types().compute.is_float();
  if (joint()) d.row_groups = groups();
  LayerFacts::Layouts all;
  all.nhwc = all.reads_nchw = true;
  for (const int64_t rows : OperatorRows()) {
    d.batch = rows;
    // Each operator has a library of its own.
    LayerFacts::Layouts one = ConvLayouts(device(), d);
    one.nhwc &= all.nhwc;
    one.reads_nchw &= all.reads_nchw;
    all = one;
  }
  if (grouped()) {
    all.prefers_nhwc &= all.nhwc;
    all.parts = false;
    all.bottoms = 1;
  }
  return all;
}

void RegisterConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.edges = &ProductEdges;
  // A group for each channel has too few products for codes to be faster.
  traits.dynamic = [](const LayerParameter& layer) {
    const ConvolutionParameter& parameter = layer.convolution_param();
    return parameter.kernel_size_size() <= 2 &&
           (parameter.group() == 1 || parameter.group() < parameter.num_output());
  };
  traits.grouped_form = [](const LayerParameter& layer) -> std::optional<GroupedForm> {
    const ConvolutionParameter& parameter = layer.convolution_param();
    if (parameter.axis() != 1) return std::nullopt;
    return GroupedForm{"GroupedConvolution", 1 + parameter.bias_term(), &KnowsGroups};
  };
  traits.summary = "cross-correlation over any number of spatial axes, with groups and dilation";
  registry.Add<ConvolutionLayer>("Convolution", traits);
  registry.Add<GroupedConvolutionLayer>(
      "GroupedConvolution", GroupedTraits("a part of MOE: a Convolution for each expert"));
}

}  // namespace caffe
