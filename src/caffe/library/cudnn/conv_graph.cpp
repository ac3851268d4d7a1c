#include "caffe/library/cudnn/conv_graph.hpp"

#include <algorithm>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/library/fallback.hpp"

namespace caffe::cudnn {
namespace {

using Kind = ElementFunction::Kind;
using Dimensions = std::vector<int64_t>;

int DataTypeCode(DataType type) { return type == kHalf ? 2 : type == kBfloat16 ? 9 : 0; }

// (a, b, spatial…) with at least two spatial axes.
Dimensions Shaped(int64_t a, int64_t b, const Shape& spatial) {
  Dimensions shape{a, b};
  if (spatial.size() == 1) shape.push_back(1);
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  return shape;
}

// `pitch`: the stride of positions in kNHWC; 0: the number of channels.
Dimensions Strides(const Dimensions& shape, Layout layout, int64_t pitch) {
  Dimensions strides(shape.size());
  int64_t stride = 1;
  const auto put = [&](size_t axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  };
  if (layout == Layout::kNHWC) put(1);
  if (pitch > 0) stride = pitch;
  for (size_t axis = shape.size(); axis-- > 2;) put(axis);
  if (layout == Layout::kNCHW) put(1);
  put(0);
  return strides;
}

Dimensions PerAxis(const Shape& values, int64_t first) {
  Dimensions result;
  if (values.size() == 1) result.push_back(first);
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

// With one position and one tap both layouts are the same. In kNCHW several strides are then 1, and
// cuDNN 9.19 has fused engines for half kinds that compute another result.
Layout LayoutOf(const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  const bool one = g.input_count() == 1 && g.output_count() == 1 && g.kernel_count() == 1;
  return one ? Layout::kNHWC : d.x_layout;
}

class Builder {
 public:
  Builder(const ConvDescriptor& d, std::vector<Descriptor>* parts)
      : d_(d), layout_(LayoutOf(d)), parts_(parts) {}

  size_t Tensor(int64_t id, const Dimensions& shape, DataType type, bool is_virtual = false,
                int64_t pitch = 0) {
    Descriptor tensor(descriptor::kTensor);
    tensor.SetEnum(attribute::kTensorType, type::kDataType, DataTypeCode(type));
    tensor.SetIntegers(attribute::kTensorShape, shape);
    tensor.SetIntegers(attribute::kTensorStrides, Strides(shape, layout_, pitch));
    tensor.SetInteger(attribute::kTensorId, id);
    tensor.SetInteger(attribute::kTensorAlignment, 16);
    tensor.SetFlag(attribute::kTensorVirtual, is_virtual);
    return Keep(std::move(tensor));
  }

  // A result within the graph, in float.
  size_t Virtual(const Dimensions& shape) { return Tensor(next_++, shape, kFloat, true); }

  size_t Convolution() {
    const ConvGeometry& g = d_.geometry;
    Descriptor conv(descriptor::kConvolution);
    conv.SetEnum(attribute::kConvType, type::kDataType, DataTypeCode(kFloat));
    conv.SetEnum(attribute::kConvMode, type::kConvolutionMode, kCrossCorrelation);
    const Dimensions dilation = PerAxis(g.dilation, 1), pad = PerAxis(g.pad, 0);
    conv.SetIntegers(attribute::kConvDilations, dilation);
    conv.SetIntegers(attribute::kConvStrides, PerAxis(g.stride, 1));
    conv.SetIntegers(attribute::kConvPrePads, pad);
    conv.SetIntegers(attribute::kConvPostPads, pad);
    conv.SetInteger(attribute::kConvAxes, static_cast<int64_t>(pad.size()));
    return Keep(std::move(conv));
  }

  // The attributes of the three kinds of convolutions: `first` is that of alpha; beta and the
  // convolution follow it. `arrays` are attributes and tensors.
  void Operation(int kind, int first, const std::vector<std::pair<int, size_t>>& arrays) {
    const size_t conv = Convolution();
    Descriptor operation(kind);
    operation.SetFloat(first, 1);
    operation.SetFloat(first + 1, 0);
    operation.SetDescriptor(first + 2, (*parts_)[conv]);
    for (const auto& [name, tensor] : arrays) operation.SetDescriptor(name, (*parts_)[tensor]);
    AddOperation(std::move(operation));
  }

  Descriptor Pointwise(PointwiseMode mode) {
    Descriptor pointwise(descriptor::kPointwise);
    pointwise.SetEnum(attribute::kPointwiseMode, type::kPointwiseMode, static_cast<int>(mode));
    pointwise.SetEnum(attribute::kPointwisePrecision, type::kDataType, DataTypeCode(kFloat));
    return pointwise;
  }

  void AddPointwise(Descriptor pointwise, size_t x, std::optional<size_t> b, size_t y,
                    float factor = 1) {
    const size_t kept = Keep(std::move(pointwise));
    Descriptor operation(descriptor::kPointwiseOperation);
    operation.SetDescriptor(attribute::kPointwise, (*parts_)[kept]);
    operation.SetDescriptor(attribute::kPointwiseX, (*parts_)[x]);
    if (b) {
      operation.SetDescriptor(attribute::kPointwiseB, (*parts_)[*b]);
      operation.SetFloat(attribute::kPointwiseAlpha2, factor);
    }
    operation.SetDescriptor(attribute::kPointwiseY, (*parts_)[y]);
    AddOperation(std::move(operation));
  }

  const std::vector<void*>& operations() const { return operations_; }

 private:
  // Returns the index of the part.
  size_t Keep(Descriptor part) {
    part.Finalize();
    parts_->push_back(std::move(part));
    return parts_->size() - 1;
  }
  void AddOperation(Descriptor operation) {
    operations_.push_back(operation.get());
    Keep(std::move(operation));
  }

  const ConvDescriptor& d_;
  const Layout layout_;
  std::vector<Descriptor>* parts_;
  std::vector<void*> operations_;
  int64_t next_ = 100;
};

// Null for a function that cuDNN does not have.
std::optional<PointwiseMode> ModeOf(const ElementFunction& f) {
  switch (f.kind) {
    case Kind::kReLU:
    case Kind::kLeaky:
    case Kind::kReLU6:
    case Kind::kClip: return PointwiseMode::kRelu;
    case Kind::kELU: return PointwiseMode::kElu;
    case Kind::kSigmoid: return PointwiseMode::kSigmoid;
    case Kind::kTanH: return PointwiseMode::kTanh;
    case Kind::kSwish: return PointwiseMode::kSwish;
    default: return std::nullopt;
  }
}

Descriptor ActivationNode(Builder* builder, const ElementFunction& f) {
  const PointwiseMode mode = *ModeOf(f);
  Descriptor node = builder->Pointwise(mode);
  if (mode == PointwiseMode::kRelu) {
    node.SetEnum(attribute::kPointwiseNan, type::kNanPropagation, kPropagateNan);
    if (f.kind == Kind::kReLU6) node.SetDouble(attribute::kReluUpper, 6);
    if (f.kind == Kind::kClip) node.SetDouble(attribute::kReluUpper, f.b);
    if (f.kind != Kind::kClip && f.a != 0) node.SetDouble(attribute::kReluSlope, f.a);
  }
  if (f.kind == Kind::kELU) node.SetDouble(attribute::kEluAlpha, f.a);
  if (f.kind == Kind::kSwish) node.SetDouble(attribute::kSwishBeta, f.a);
  return node;
}

// The sums of the convolution, the tensor `v`, through the epilogue into y. A residual that is
// added before the activation comes before the bias: that is the order for which cuDNN has most
// engines.
void AddEpilogue(Builder* builder, const ConvDescriptor& d, size_t v, const Dimensions& shape,
                 size_t y) {
  struct Node {
    Descriptor pointwise;
    std::optional<size_t> operand;
    float factor = 1;
  };
  std::vector<Node> nodes;
  const auto add = [&](size_t operand, float factor) {
    nodes.push_back({builder->Pointwise(PointwiseMode::kAdd), operand, factor});
  };
  const auto add_residual = [&] {
    add(builder->Tensor(kResidual, shape, d.out), d.epilogue.sum()->coefficient);
  };
  const auto& stages = d.epilogue.stages;
  const bool has_sum = d.epilogue.sum() != nullptr;
  const bool sum_first = has_sum && std::holds_alternative<ResidualSum>(stages[0]);
  if (sum_first) add_residual();
  if (d.epilogue.bias != Epilogue::Bias::kNone) {
    Dimensions channels(shape.size(), 1);
    channels[1] = shape[1];
    add(builder->Tensor(kBias, channels, kFloat), 1);
  }
  if (const ElementFunction f = d.epilogue.activation(); f.kind != Kind::kNone) {
    nodes.push_back({ActivationNode(builder, f), std::nullopt});
  }
  if (has_sum && !sum_first) add_residual();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const size_t target = i + 1 == nodes.size() ? y : builder->Virtual(shape);
    builder->AddPointwise(std::move(nodes[i].pointwise), v, nodes[i].operand, target,
                          nodes[i].factor);
    v = target;
  }
}

}  // namespace

const char* ConvPassName(ConvPass pass) {
  return pass == ConvPass::kForward ? "forward" : pass == ConvPass::kData ? "data" : "weights";
}

bool MayUse(DataType type, int64_t window, const std::vector<int>& notes) {
  const bool narrow = type != kFloat;
  return std::none_of(notes.begin(), notes.end(), [&](int note) {
    switch (static_cast<Note>(note)) {
      case Note::kDownConvertInputs:
      case Note::kReducedPrecisionReduction:
      case Note::kNonDeterministic:
      // Transforms of large tiles lose digits in float, too.
      case Note::kWinograd6x6:
      case Note::kWinograd13x13: return true;
      // Matrix units compute float data as TF32.
      case Note::kTensorCore: return !narrow;
      // Transforms of data of 16 bits lose digits. Winograd's lose more of them the larger the sum
      // of window and tile is: with a 5x5 window three digits in float.
      case Note::kWinograd:
      case Note::kWinograd4x4: return narrow || window > 3;
      case Note::kFft: return narrow;
      default: return false;
    }
  });
}

bool CanFuse(const Epilogue& epilogue) {
  const ElementFunction f = epilogue.activation();
  // The lower bound of Clip would need its own node if it is not 0.
  return (f.kind == Kind::kNone || ModeOf(f)) && (f.kind != Kind::kClip || f.a == 0);
}

std::string EngineChoice::text() const {
  std::string text = Concat("engine ", engine);
  for (size_t i = 0; i < knobs.size(); ++i) {
    text += Concat(i ? "," : " knobs ", knobs[i].first, "=", knobs[i].second);
  }
  return text;
}

std::optional<EngineChoice> EngineChoice::Parse(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  std::string word;
  EngineChoice choice;
  if (!(in >> word >> choice.engine) || word != "engine" || choice.engine < 0) {
    return std::nullopt;
  }
  if (!(in >> word)) return choice;
  if (word != "knobs") return std::nullopt;
  char separator = ',';
  while (separator == ',') {
    int64_t type = 0, value = 0;
    char equals = 0;
    if (!(in >> type >> equals >> value) || equals != '=') return std::nullopt;
    choice.knobs.emplace_back(type, value);
    if (!(in >> separator)) return choice;
  }
  return std::nullopt;
}

DataType GradientType(const ConvDescriptor& d, bool fused) { return fused ? d.in : kFloat; }

ConvGraph::ConvGraph(const Target& target, const ConvDescriptor& d, ConvPass pass, bool fused)
    : target_(target),
      type_(d.in),
      window_(*std::max_element(d.geometry.kernel.begin(), d.geometry.kernel.end())) {
  Builder builder(d, &parts_);
  const ConvGeometry& g = d.geometry;
  const Dimensions y_shape = Shaped(d.batch, d.out_channels, g.output());
  const Dimensions w_shape = Shaped(d.out_channels, d.in_channels / d.group, g.kernel);
  const size_t x = builder.Tensor(kX, Shaped(d.batch, d.in_channels, g.input), d.in);
  const size_t w =
      builder.Tensor(kW, w_shape, pass == ConvPass::kWeights ? GradientType(d, fused) : d.in);
  const size_t y = builder.Tensor(kY, y_shape, d.out, false, d.y_pitch);
  using namespace attribute;
  if (pass == ConvPass::kForward) {
    const bool nodes = fused && !d.epilogue.empty();
    const size_t sums = nodes ? builder.Virtual(y_shape) : y;
    builder.Operation(descriptor::kConvolutionForward, kForwardAlpha,
                      {{kForwardX, x}, {kForwardW, w}, {kForwardY, sums}});
    if (nodes) AddEpilogue(&builder, d, sums, y_shape, y);
  } else if (pass == ConvPass::kData) {
    builder.Operation(descriptor::kConvolutionBackwardData, kDataAlpha,
                      {{kDataDy, y}, {kDataW, w}, {kDataDx, x}});
  } else {
    builder.Operation(descriptor::kConvolutionBackwardFilter, kFilterAlpha,
                      {{kFilterX, x}, {kFilterDy, y}, {kFilterDw, w}});
  }
  graph_ = Descriptor(descriptor::kOperationGraph);
  if (target.handle) graph_.Set(kGraphHandle, type::kHandle, 1, &target.handle);
  graph_.SetDescriptors(kGraphOperations, builder.operations());
  graph_.Finalize();
}

std::vector<EngineChoice> ConvGraph::Recommended(int mode) const {
  std::vector<EngineChoice> choices;
  try {
    Descriptor heuristics(descriptor::kHeuristics);
    heuristics.SetDescriptor(attribute::kHeuristicGraph, graph_);
    heuristics.SetEnum(attribute::kHeuristicMode, type::kHeuristicMode, mode);
    if (target_.properties) {
      heuristics.SetDescriptor(attribute::kHeuristicDevice, *target_.properties);
    }
    if (!heuristics.TryFinalize()) return choices;
    std::vector<Descriptor> configs;
    for (int64_t i = heuristics.Count(attribute::kHeuristicResults); i > 0; --i) {
      configs.emplace_back(descriptor::kEngineConfig);
    }
    if (configs.empty()) return choices;
    configs.resize(heuristics.Fill(attribute::kHeuristicResults, &configs));
    for (const Descriptor& config : configs) {
      std::vector<Descriptor> engine, knobs;
      engine.emplace_back(descriptor::kEngine);
      for (int i = 0; i < kKnobTypes; ++i) knobs.emplace_back(descriptor::kKnobChoice);
      config.Fill(attribute::kConfigEngine, &engine);
      knobs.resize(config.Fill(attribute::kConfigKnobs, &knobs));
      EngineChoice choice;
      choice.engine = engine[0].Integer(attribute::kEngineIndex);
      for (const Descriptor& knob : knobs) {
        const auto type = knob.Enums(attribute::kKnobType, type::kKnobType, 1);
        if (type.empty()) continue;
        choice.knobs.emplace_back(type[0], knob.Integer(attribute::kKnobValue));
      }
      choices.push_back(std::move(choice));
    }
  } catch (const LibraryRefusal&) {
    // Without heuristics all engines are candidates.
  }
  return choices;
}

std::optional<ConvGraph::Config> ConvGraph::MakeConfig(const EngineChoice& choice) const {
  try {
    Config made{Descriptor(descriptor::kEngine), Descriptor(descriptor::kEngineConfig), {}};
    made.engine.SetDescriptor(attribute::kEngineGraph, graph_);
    made.engine.SetInteger(attribute::kEngineIndex, choice.engine);
    if (target_.properties) {
      made.engine.SetDescriptor(attribute::kEngineDevice, *target_.properties);
    }
    if (!made.engine.TryFinalize()) return std::nullopt;
    const auto notes = made.engine.Enums(attribute::kEngineNotes, type::kNumericalNote,
                                         static_cast<int>(Note::kCount));
    if (!MayUse(type_, window_, notes)) return std::nullopt;
    const auto behavior =
        made.engine.Enums(attribute::kEngineBehavior, type::kBehaviorNote, kBehaviorNotes);
    made.facts.compiled_at_run_time =
        std::find(behavior.begin(), behavior.end(), kCompiledAtRunTime) != behavior.end();
    made.config.SetDescriptor(attribute::kConfigEngine, made.engine);
    std::vector<Descriptor> knobs;
    std::vector<void*> pointers;
    for (const auto& [knob, value] : choice.knobs) {
      Descriptor set(descriptor::kKnobChoice);
      set.SetEnum(attribute::kKnobType, type::kKnobType, static_cast<int>(knob));
      set.SetInteger(attribute::kKnobValue, value);
      set.Finalize();
      pointers.push_back(set.get());
      knobs.push_back(std::move(set));
    }
    if (!pointers.empty()) made.config.SetDescriptors(attribute::kConfigKnobs, pointers);
    if (!made.config.TryFinalize()) return std::nullopt;
    return made;
  } catch (const LibraryRefusal&) {
    return std::nullopt;
  }
}

std::optional<ConvGraph::Facts> ConvGraph::Check(const EngineChoice& choice) const {
  const auto config = MakeConfig(choice);
  return config ? std::optional(config->facts) : std::nullopt;
}

std::unique_ptr<ConvPlan> ConvGraph::Make(const EngineChoice& choice) const {
  auto config = MakeConfig(choice);
  if (!config) return nullptr;
  try {
    auto made = std::make_unique<ConvPlan>();
    made->plan = Descriptor(descriptor::kPlan);
    if (target_.handle) {
      made->plan.Set(attribute::kPlanHandle, type::kHandle, 1, &target_.handle);
    }
    if (target_.properties) {
      made->plan.SetDescriptor(attribute::kPlanDevice, *target_.properties);
    }
    made->plan.SetDescriptor(attribute::kPlanConfig, config->config);
    if (!made->plan.TryFinalize()) return nullptr;
    made->workspace = made->plan.Integer(attribute::kPlanWorkspace);
    made->config = std::move(config->config);
    return made;
  } catch (const LibraryRefusal&) {
    return nullptr;
  }
}

}  // namespace caffe::cudnn
