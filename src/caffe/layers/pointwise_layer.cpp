#include "pointwise_layer.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/type_function.hpp"

namespace caffe {
namespace {

template <class Dtype, class MItype, class MOtype>
using PointwiseLayer = Layer<Dtype, MItype, MOtype, Pointwise>;

using Gradient = PointwiseFormula::Gradient;

Gradient GradientOf(const ElementFunction& function) {
  const ElementFunction::Row& row = function.row();
  if (!row.GradientReads('d')) return Gradient::kNone;
  const bool x = row.GradientReads('v'), y = row.GradientReads('y');
  return x && y ? Gradient::kOfBoth
         : x    ? Gradient::kOfBottom
         : y    ? Gradient::kOfTop
                : Gradient::kOfDiff;
}

// The codes of the function that a user gave the type for this layer; null without one.
std::shared_ptr<const std::vector<uint16_t>> OwnFunction(const TypeTriple& types,
                                                         const std::string& layer) {
  if (types != TypeTriple::Equal(types.compute)) return nullptr;
  return TypeFunction(types.compute, layer);
}

}  // namespace

PointwiseFormula::PointwiseFormula(const ElementFunction& function)
    : function(function),
      gradient(GradientOf(function)),
      gradient_constants{function.a, function.b, function.c, 0} {}

void Pointwise::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const std::vector<PointwiseRow>& rows = PointwiseRows();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [this](const PointwiseRow& r) { return type() == r.type; });
  CAFFE_CHECK(row != rows.end(), Where(), ": is not in the table of element-wise layers");
  formula_ = row->make(layer_param(), Where());
  backward_.reset();
  input_.SetDevice(device());
  if (types().compute.is_quantized()) {
    table_ = CodeTable([f = formula_.function](double x) { return f.value(x); }, types().compute,
                       device(), name() + " table", MakeKernel("neuron/look_up", "look_up"));
    UseCodes(&table_);
    return;
  }
  own_codes_ = nullptr;
  if (const auto codes = OwnFunction(types(), type())) {
    const DataType stored = types().compute.bytes() == 1 ? kQuant8 : kQuant16;
    own_codes_ = MakeBlob(stored, device(), {static_cast<int64_t>(codes->size())},
                          name() + " function of the type");
    if (stored == kQuant8) {
      std::copy(codes->begin(), codes->end(),
                static_cast<uint8_t*>(own_codes_->overwrite_host_data()));
    } else {
      std::copy(codes->begin(), codes->end(),
                static_cast<uint16_t*>(own_codes_->overwrite_host_data()));
    }
    own_codes_->device_data();  // uploaded now, not in the forward that follows
    look_up_ = MakeKernel("neuron/look_up", "look_up", TypeTriple::Equal(stored));
  }
  const auto program = FunctionProgram(device(), types(), formula_.function.kind);
  forward_ = program->CreateKernel("function_forward");
  if (row->backward) backward_ = program->CreateKernel("function_backward");
}

void Pointwise::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*bottom[0]);
}

void Pointwise::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_quantized()) return table_.Launch(*bottom[0], top[0]);
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  const int64_t count = bottom[0]->count();
  if (own_codes_) {
    look_up_->Launch(count, {count, bottom[0]->device_data(), own_codes_->device_data(),
                             top[0]->mutable_device_data()});
    return;
  }
  const ElementFunction& f = formula_.function;
  forward_->Launch(count, {count, bottom[0]->Data(), top[0]->MutableData(),
                           static_cast<int>(f.kind), f.a, f.b, f.c});
}

void Pointwise::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  const int64_t count = bottom[0]->count();
  if (!propagate_down[0] || count == 0) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  CAFFE_CHECK(backward_, Where(), ": has no gradient");
  CAFFE_CHECK(types().in == types().out, Where(), ": has no backward pass from a top of type ",
              types().out.name(), " to a bottom of type ", types().in.name(),
              "; with force_backward: true, the net converts the gradient");
  // An array that the gradient does not read stands for another one: the top has the signs of the
  // bottom wherever it is enough for a gradient that mentions both.
  const KernelArgument d = top[0]->Diff(), y = ReadsTop() ? top[0]->Data() : d;
  const KernelArgument x = ReadsBottom() ? input_.Data(*bottom[0], *top[0]) : y;
  KernelArguments arguments{
      count, x, y, d, bottom[0]->MutableDiff(), static_cast<int>(formula_.function.kind)};
  arguments.append(formula_.gradient_constants.begin(), formula_.gradient_constants.end());
  backward_->Launch(count, arguments);
}

LayerFacts Pointwise::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.layouts.any = true;
  const ElementFunction& function = formula_.function;
  if (own_codes_) return facts;  // not the function of the table
  if (function.kind == ElementFunction::Kind::kAffine) {
    facts.affine = Affine::Constant(function.a, function.b);
  } else {
    facts.function = function;
    using Kind = ElementFunction::Kind;
    if (function.kind == Kind::kTanH) facts.bounds = LayerFacts::Bounds{};
    if (function.kind == Kind::kSigmoid) facts.bounds = LayerFacts::Bounds{.low = 0};
  }
  return facts;
}

void RegisterPointwiseLayer(LayerRegistry& registry) {
  for (const PointwiseRow& row : PointwiseRows()) {
    LayerTraits traits;
    traits.in_place = true;
    traits.types = BuiltInTypes();
    traits.backward = row.backward;
    traits.backward_reads = [make = row.make](const LayerParameter& layer) -> BackwardReads {
      const Gradient of = make(layer, layer.name() + " (" + layer.type() + ")").gradient;
      BackwardReads reads;
      if (of == Gradient::kOfBottom || of == Gradient::kOfBoth) reads.bottoms = {0};
      if (of == Gradient::kOfTop || of == Gradient::kOfBoth) reads.tops = {0};
      reads.copies_in_place = true;
      return reads;
    };
    traits.own_function = [type = row.type](DataType of) {
      return TypeFunction(of, type) != nullptr;
    };
    // A function of the type itself is one between its codes.
    traits.edges = [own = traits.own_function](const TypeTriple& wanted) {
      return own(wanted.compute) ? std::nullopt : ElementwiseEdges(wanted);
    };
    traits.per_item = Always(true);
    traits.summary = row.summary;
    registry.Add<PointwiseLayer>(row.type, traits);
  }
}

}  // namespace caffe
