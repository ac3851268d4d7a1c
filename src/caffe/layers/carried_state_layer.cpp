#include "carried_state_layer.hpp"

#include <bit>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

template <class Dtype, class MItype, class MOtype>
using CarriedStateLayer = Layer<Dtype, MItype, MOtype, CarriedState>;

}  // namespace

void CarriedState::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(!types().out.is_scaled() && !types().out.is_packed(), Where(), ": data type '",
              types().out.name(), "' is scaled or packed, which the state of a recurrent layer is ",
              "not; give the recurrent layer compute_data_type: CAFFE_FLOAT");
  CAFFE_CHECK(bottom[0]->num_axes() == 2, Where(),
              ": cont must have the axes T and N; it has shape ", bottom[0]->shape_string());
  const int64_t columns = layer_param().recurrent_param().num_output();
  const Shape shape{1, bottom[0]->shape(1), columns};
  top[0]->Reshape(shape);
  if (next_ && next_->shape() == shape) return;
  next_ = MakeBlob(types().out, device(), shape, name() + " next");
  used_ = MakeBlob(types().out, device(), shape, name() + " used");
  if (!restored_.empty() && static_cast<int64_t>(restored_[0]) == shape[1]) {
    Write(restored_);
    restored_.clear();
  }
}

void CarriedState::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (top[0]->count() == 0) return;
  device()->Copy(used_->mutable_device_data(), next_->device_data(), next_->bytes());
  RepeatForward(bottom, top);
}

void CarriedState::RepeatForward(const BlobVec&, const BlobVec& top) {
  if (top[0]->count() == 0) return;
  device()->Copy(top[0]->mutable_device_data(), used_->device_data(), used_->bytes());
}

void CarriedState::Store(const BlobBase& state) {
  CAFFE_CHECK(state.shape() == next_->shape(), Where(), ": a state of shape ", state.shape_string(),
              " cannot be stored; the layer has ", next_->shape_string());
  if (state.count() == 0) return;
  device()->Copy(next_->mutable_device_data(), state.device_data(), state.bytes());
}

void CarriedState::MoveToDevice(Device* device, const BlobVec& bottom, const BlobVec& top) {
  for (const auto& blob : {next_, used_}) blob->SetDevice(device);
  LayerBase::MoveToDevice(device, bottom, top);
}

LayerFacts CarriedState::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  if (bounded_) facts.bounds = LayerFacts::Bounds{};
  return facts;
}

std::vector<uint64_t> CarriedState::RunState() const {
  if (!restored_.empty()) return restored_;
  const auto copy = MakeBlob(next_->type(), device(), next_->shape(), next_->name());
  if (copy->count() > 0) {
    device()->Copy(copy->mutable_device_data(), next_->device_data(), copy->bytes());
  }
  std::vector<uint64_t> values{static_cast<uint64_t>(next_->shape(1))};
  for (const double value : copy->DataAsDouble()) values.push_back(std::bit_cast<uint64_t>(value));
  return values;
}

void CarriedState::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  const uint64_t columns = layer_param().recurrent_param().num_output();
  // The number of sequences is compared first: the product of a damaged one may wrap around.
  CAFFE_CHECK(
      !values.empty() && values[0] < values.size() && values.size() == 1 + values[0] * columns,
      Where(), ": a saved state of ", values.size(), " numbers, but this layer has ", columns,
      " for each sequence, after their number");
  restored_.clear();
  if (static_cast<int64_t>(values[0]) == next_->shape(1)) {
    Write(values);
  } else {
    restored_ = values;
  }
  LayerBase::SetRunState(seed, RunState());
}

void CarriedState::Write(const std::vector<uint64_t>& values) {
  const auto copy = MakeBlob(next_->type(), device(), next_->shape(), next_->name());
  if (copy->count() == 0) return;
  std::vector<double> numbers;
  for (size_t i = 1; i < values.size(); ++i) numbers.push_back(std::bit_cast<double>(values[i]));
  copy->SetData(numbers);
  device()->Copy(next_->mutable_device_data(), copy->device_data(), copy->bytes());
}

void RegisterCarriedStateLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.float_bottoms = {0};
  traits.no_gradient_bottoms = {0};
  traits.backward = false;
  traits.backward_reads = Always({});
  traits.summary = "the state that a recurrent layer carries to the next forward";
  registry.Add<CarriedStateLayer>("CarriedState", traits);
}

}  // namespace caffe
