#include <memory>
#include <utility>
#include <vector>

#include "caffe.pb.h"
#include "caffe/layer/code_deconvolution.hpp"
#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "caffe/layer/work.hpp"

namespace caffe {
namespace {

// The transpose of Convolution over the spatial axes, those after `axis`, plus a bias per output
// channel:
//   y[n, o, p stride + k dilation - pad] += w[c, o, k] x[n, c, p], over c and k, and b[o]
//   output extent = stride (input - 1) + dilation (kernel - 1) + 1 - 2 pad
//   Its gradient of x is a convolution of dE/dy.
// bottoms: [N…, C, spatial…], all of one shape; one top for each: [N…, num_output, output…].
// blobs, shared by all pairs: weights [C, num_output / group, kernel…], bias [num_output].
// convolution_param: as for Convolution. For upsampling by a factor f without learning: kernel_size
//   2 f - f % 2, stride f, pad ceil((f - 1) / 2), num_output and group C, weight_filler bilinear.
// Types: float kinds; with up to 3 spatial axes, quant8 and quant16 forward (CodeDeconvolution),
// where y has a range of its own. Weights and bias are masters (float, double for double).
class Deconvolution : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  LayerFacts Facts() const override;
  void CountMemory(WorkMemory* memory) const override;

 protected:
  OperatorWeights::Source WeightSource() const override;
  std::unique_ptr<LibraryOp> MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                           const JointWeights::Groups& weights, bool backward,
                                           LayoutPair layouts) const override;

 private:
  ConvSetup setup_;
  // In quantized types: one for each bottom, because bottoms have separate ranges.
  std::vector<std::unique_ptr<CodeDeconvolution>> codes_;
  Shape input_, output_;  // of a bottom and a top, as the operators were made for them
};

template <class Dtype, class MItype, class MOtype>
using DeconvolutionLayer = Layer<Dtype, MItype, MOtype, Deconvolution>;

void Deconvolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  setup_ = ConvSetup(Where(), parameter, bottom, top);
  AddWeights(setup_.WeightShape(setup_.channels, setup_.outputs / setup_.group),
             parameter.weight_filler(), setup_.has_bias ? setup_.outputs : 0,
             parameter.bias_filler());
  input_.clear();
  codes_.clear();
  if (types().compute.is_quantized()) {
    CAFFE_CHECK(setup_.spatial_axes() <= CodeDeconvolution::kMaxAxes, Where(), ": ",
                setup_.spatial_axes(), " spatial axes are not supported in ", types().name(),
                ", which takes up to ", CodeDeconvolution::kMaxAxes,
                "; give the layer a float type");
    const QuantizedParameters::Options options(layer_param(), setup_.outputs);
    for (size_t i = 0; i < bottom.size(); ++i) {
      codes_.push_back(std::make_unique<CodeDeconvolution>(
          setup_, blobs_[0].get(), setup_.has_bias ? blobs_[1].get() : nullptr, options,
          types().compute, device()));
    }
    return;
  }
  SetUpWeights(top.size());
}

OperatorWeights::Source Deconvolution::WeightSource() const {
  OperatorWeights::Source source;
  source.layout = {setup_.outputs, setup_.group, setup_.channels / setup_.group};
  return source;
}

void Deconvolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  setup_.CheckBottoms(Where(), bottom);
  const Shape& input = bottom[0]->shape();
  const ConvWindow& window = setup_.window;
  Shape output = setup_.OutputStart(input);
  for (int i = 0; i < setup_.spatial_axes(); ++i) {
    const int64_t extent = input[setup_.axis + 1 + i];
    const int64_t full = window.stride[i] * (extent - 1) + window.extent(i);
    CAFFE_CHECK(full > 2 * window.pad[i], Where(), ": the pad of ", window.pad[i],
                " on spatial axis ", i, " leaves nothing of the ", full, " elements that ", extent,
                " make");
    output.push_back(full - 2 * window.pad[i]);
  }
  for (BlobBase* blob : top) blob->Reshape(output);
  if (input == input_) return;
  input_ = input;
  output_ = output;
  if (types().compute.is_quantized()) return;
  // The libraries know no windows over empty images.
  ResetOps(ShapeCount(input_) > 0 ? ShapeCount(input_, 0, setup_.axis) : 0, *bottom[0], *top[0]);
}

void Deconvolution::PrepareParameters() {
  if (types().compute.is_float()) return WeightedLayer::PrepareParameters();
  for (int i = 0; i < static_cast<int>(codes_.size()); ++i) {
    codes_[i]->Prepare(BottomRange(i), TopRange(i));
  }
}

void Deconvolution::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_float()) return WeightedLayer::Forward(bottom, top);
  for (int i = 0; i < static_cast<int>(codes_.size()); ++i) {
    codes_[i]->Launch(input_, output_, In(bottom, i), Out(top, i));
  }
}

std::unique_ptr<Work> Deconvolution::MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                              const BlobVec& top) {
  if (types().compute.is_float()) return WeightedLayer::MakeWork(request, bottom, top);
  return LayerBase::MakeWork(request, bottom, top);
}

std::unique_ptr<LibraryOp> Deconvolution::MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                                        const JointWeights::Groups& weights,
                                                        bool backward, LayoutPair) const {
  ConvDescriptor d;
  d.batch = rows;
  d.in_channels = setup_.outputs;
  d.out_channels = setup_.channels;
  d.group = setup_.group;
  d.in = d.out = types().compute;
  const ConvWindow& window = setup_.window;
  if (setup_.spatial_axes() == 0) {
    // Without spatial axes the convolution has one axis of a single position.
    d.geometry.input = d.geometry.kernel = {1};
  } else {
    d.geometry = {Shape(output_.begin() + setup_.axis + 1, output_.end()), window.kernel,
                  window.stride, window.pad, window.dilation};
  }
  d.forward = d.backward_weights = backward;
  d.backward_data = true;
  const Epilogue completed = Completed(epilogue, Epilogue::Bias::kPerRow, *weights[0]);
  return std::make_unique<WeightedDeconv>(device(), d, completed, weights);
}

LayerFacts Deconvolution::Facts() const {
  LayerFacts::Weighted weighted;
  weighted.axis = setup_.axis;
  weighted.channels = setup_.outputs;
  weighted.group = setup_.group;
  weighted.outer = setup_.channels / setup_.group;
  weighted.has_bias = setup_.has_bias;
  const bool is_float = types().compute.is_float();
  weighted.folds = weighted.sums = weighted.activates = weighted.curves = is_float;
  LayerFacts facts = FactsOf(std::move(weighted));
  if (!is_float) facts.weighted->code_scales = [this] { return codes_[0]->scales(); };
  return facts;
}

void Deconvolution::CountMemory(WorkMemory* memory) const {
  for (const auto& codes : codes_) memory->derived += codes->bytes();
  if (!codes_.empty()) NoteHostParameters(memory);
}

}  // namespace

void RegisterDeconvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.summary = "the transpose of a convolution, with groups and dilation";
  registry.Add<DeconvolutionLayer>("Deconvolution", traits);
}

}  // namespace caffe
