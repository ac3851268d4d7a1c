#include "pointwise_layer.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

template <class Dtype, class MItype, class MOtype>
using PointwiseLayer = Layer<Dtype, MItype, MOtype, Pointwise>;

}  // namespace

void Pointwise::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const std::vector<PointwiseRow>& rows = PointwiseRows();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [this](const PointwiseRow& r) { return type() == r.type; });
  CAFFE_CHECK(row != rows.end(), Where(), ": is not in the table of element-wise layers");
  formula_ = row->make(layer_param(), Where());
  const std::string file = row->file, body = "neuron/" + file;
  backward_.reset();
  input_.SetDevice(device());
  if (types().compute.is_quantized()) {
    table_ = CodeTable(formula_.value, types().compute, device(), name() + " table",
                       MakeKernel("neuron/look_up", "look_up"));
    UseCodes(&table_);
    return;
  }
  forward_ = MakeKernel(body, formula_.forward.empty() ? file + "_forward" : formula_.forward);
  if (row->backward) {
    backward_ =
        MakeKernel(body, formula_.backward.empty() ? file + "_backward" : formula_.backward);
  }
}

void Pointwise::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*bottom[0]);
}

void Pointwise::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_quantized()) return table_.Launch(*bottom[0], top[0]);
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  const int64_t count = bottom[0]->count();
  KernelArguments arguments{count, bottom[0]->Data(), top[0]->MutableData()};
  arguments.append(formula_.constants.begin(), formula_.constants.end());
  forward_->Launch(count, arguments);
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
  KernelArguments arguments{count};
  if (ReadsBottom()) arguments.push_back(input_.Data(*bottom[0], *top[0]));
  if (ReadsTop()) arguments.push_back(top[0]->Data());
  arguments.push_back(top[0]->Diff());
  arguments.push_back(bottom[0]->MutableDiff());
  const std::vector<double>& constants = formula_.backward_constants;
  arguments.append(constants.begin(), constants.end());
  backward_->Launch(count, arguments);
}

LayerFacts Pointwise::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.layouts.any = true;
  facts.pointwise = formula_.activation;
  facts.affine = formula_.affine;
  facts.function = formula_.function;
  return facts;
}

void RegisterPointwiseLayer(LayerRegistry& registry) {
  for (const PointwiseRow& row : PointwiseRows()) {
    LayerTraits traits;
    traits.in_place = true;
    traits.types = BuiltInTypes();
    traits.backward = row.backward;
    traits.backward_reads = [make = row.make](const LayerParameter& layer) -> BackwardReads {
      using Gradient = PointwiseFormula::Gradient;
      const Gradient of = make(layer, layer.name() + " (" + layer.type() + ")").gradient;
      BackwardReads reads;
      if (of == Gradient::kOfBottom || of == Gradient::kOfBoth) reads.bottoms = {0};
      if (of == Gradient::kOfTop || of == Gradient::kOfBoth) reads.tops = {0};
      reads.copies_in_place = true;
      return reads;
    };
    traits.edges = &ElementwiseEdges;
    traits.per_item = Always(true);
    traits.summary = row.summary;
    registry.Add<PointwiseLayer>(row.type, traits);
  }
}

}  // namespace caffe
