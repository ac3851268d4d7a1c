#include "caffe/layer/layer.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/layer/filler.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

void CheckCount(const std::string& where, const char* what, size_t count, int low, int high) {
  const int have = static_cast<int>(count);
  if (low == high) {
    CAFFE_CHECK(have == low, where, ": takes ", low, " ", what, " blob(s), but the net gives ",
                have);
  }
  CAFFE_CHECK(low < 0 || have >= low, where, ": takes at least ", low, " ", what,
              " blob(s), but the net gives ", have);
  CAFFE_CHECK(high < 0 || have <= high, where, ": takes at most ", high, " ", what,
              " blob(s), but the net gives ", have);
}

}  // namespace

uint64_t LayerContext::draw_seed() const {
  return replica.rank == 0 ? seed : SeedOfPart(seed, static_cast<uint64_t>(replica.rank));
}

LayerBase::LayerBase(const LayerParameter& parameter, const LayerContext& context)
    : parameter_(std::make_unique<LayerParameter>(parameter)), context_(context) {
  if (!context.workspace) {
    own_workspace_ = std::make_unique<Workspace>(context.device, parameter.name() + " workspace");
    context_.workspace = own_workspace_.get();
  }
  for (int i = 0; i < parameter.blobs_size(); ++i) {
    auto blob = MakeBlob(master_type(), context.device, {0}, Concat(parameter.name(), ".", i));
    blob->FromProto(parameter.blobs(i));
    blobs_.push_back(std::move(blob));
  }
}

LayerBase::~LayerBase() = default;

void LayerBase::SetUp(const LayerTraits& traits, const BlobVec& bottom, const BlobVec& top) {
  CheckCount(Where(), "bottom", bottom.size(), traits.min_bottom, traits.max_bottom);
  CheckCount(Where(), "top", top.size(), traits.min_top, traits.max_top);
  LayerSetUp(bottom, top);
  Reshape(bottom, top);
  const int weights = layer_param().loss_weight_size();
  CAFFE_CHECK(weights == 0 || weights == static_cast<int>(top.size()), Where(),
              ": loss_weight must be given for every top or for none; there are ", top.size(),
              " tops and ", weights, " weights");
  for (int i = 0; i < static_cast<int>(top.size()); ++i) {
    const float weight = weights ? layer_param().loss_weight(i) : traits.loss && i == 0 ? 1.f : 0.f;
    if (weight != 0) set_loss_weight(i, weight);
  }
}

void LayerBase::MoveToDevice(Device* device, const BlobVec& bottom, const BlobVec& top) {
  context_.device = device;
  context_.workspace->SetDevice(device);
  for (auto& blob : blobs_) blob->SetDevice(device);
  LayerSetUp(bottom, top);
  Reshape(bottom, top);
  // A backward pass may follow, and it reads derived copies. Quantized layers have no backward
  // pass.
  if (types().compute.is_float()) PrepareParameters();
}

void LayerBase::Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) {
  CAFFE_THROW(Where(), ": has no backward pass in ", types().name(),
              "; train in a float type and quantize afterwards");
}

LayerFacts LayerBase::Facts() const { return {}; }

void LayerBase::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  CAFFE_CHECK(values.size() == RunState().size(), Where(), ": a saved position of ", values.size(),
              " numbers, but this layer needs ", RunState().size());
  context_.seed = seed;
}

const std::string& LayerBase::name() const { return parameter_->name(); }
const std::string& LayerBase::type() const { return parameter_->type(); }
Phase LayerBase::phase() const { return parameter_->phase(); }

void LayerBase::set_param_propagate_down(int index, bool value) {
  if (index >= static_cast<int>(param_propagate_down_.size())) {
    param_propagate_down_.resize(index + 1, false);
  }
  param_propagate_down_[index] = value;
}

void LayerBase::set_loss_weight(int top, float weight) {
  if (top >= static_cast<int>(loss_weights_.size())) loss_weights_.resize(top + 1, 0.f);
  loss_weights_[top] = weight;
}

std::string LayerBase::Where() const { return name() + " (" + type() + ")"; }

void LayerBase::AddParameter(int index, const Shape& shape, const FillerParameter& filler) {
  if (index < static_cast<int>(blobs_.size()) && blobs_[index]) {
    CAFFE_CHECK(blobs_[index]->shape() == shape, Where(), ": parameter ", index, " has shape ",
                blobs_[index]->shape_string(), ", but the layer needs ", ShapeString(shape));
    return;
  }
  if (index >= static_cast<int>(blobs_.size())) blobs_.resize(index + 1);
  blobs_[index] = MakeBlob(master_type(), device(), shape, Concat(name(), ".", index));
  try {
    FillAtAccess(filler, context_.seed + static_cast<uint64_t>(index) + 1, blobs_[index].get());
  } catch (...) {
    RethrowIn(Where());
  }
}

std::unique_ptr<Kernel> LayerBase::MakeKernel(const std::string& body, const std::string& kernel,
                                              const TypeTriple& types) const {
  try {
    return ProgramBuilder(device(), body).Types(types).Body(body).Build()->CreateKernel(kernel);
  } catch (...) {
    RethrowIn(Where());
  }
}

std::unique_ptr<Kernel> LayerBase::MakeKernel(const std::string& body,
                                              const std::string& kernel) const {
  return MakeKernel(body, kernel, types());
}

std::unique_ptr<Kernel> LayerBase::MakeGroupKernel(const std::string& body,
                                                   const std::string& kernel) const {
  try {
    return ProgramBuilder(device(), body).Types(types()).Body(body).GroupKernel(kernel);
  } catch (...) {
    RethrowIn(Where());
  }
}

QuantRange LayerBase::Observed(DataType type, const std::vector<BlobRange>& ranges, int index,
                               const char* what) const {
  if (!type.is_quantized()) return {};
  const bool known = index < static_cast<int>(ranges.size());
  CAFFE_CHECK(known && ranges[index].observed, Where(), ": no range of ",
              known ? "blob " + ranges[index].name : Concat(what, " ", index),
              " was ever observed; calibrate: run the net in a float type on typical data with ",
              "quant_mode CAFFE_QUANT_OBSERVE, save it, and load that caffemodel here");
  return ranges[index];
}

KernelArgument LayerBase::In(const BlobVec& bottom, int index, int64_t offset) const {
  const BlobBase& blob = *bottom[index];
  const int64_t bytes = static_cast<int64_t>(blob.type().bytes());
  return {blob.device_data() + offset * bytes, BottomRange(index).zero};
}

KernelArgument LayerBase::Out(const BlobVec& top, int index, int64_t offset) const {
  BlobBase& blob = *top[index];
  const int64_t bytes = static_cast<int64_t>(blob.type().bytes());
  return {blob.mutable_device_data() + offset * bytes, TopRange(index).zero};
}

KernelArgument LayerBase::Rescale(int bottom, int top, double factor) const {
  return Scale(factor * (BottomRange(bottom).scale / TopRange(top).scale));
}

KernelArgument LayerBase::Scale(double factor) const {
  if (types().compute.is_quantized()) return Requant::FromReal(factor);
  return factor;
}

}  // namespace caffe
