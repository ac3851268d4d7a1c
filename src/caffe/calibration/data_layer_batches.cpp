#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "comparison.hpp"
#include "test_nets.hpp"

namespace caffe {

struct DataLayerBatches::State {
  NetParameter model;
  Device* device;
  std::unique_ptr<Net> net;
  int64_t next = 0;
};

DataLayerBatches::DataLayerBatches(const NetParameter& model, Device* device)
    : state_(std::make_shared<State>()) {
  state_->model = Layers(*TestNet(model, device));
  state_->device = device;
  auto* layers = state_->model.mutable_layer();
  for (int i = layers->size(); i-- > 0;) {
    if (!TraitsOf(layers->Get(i).type()).data) layers->DeleteSubrange(i, 1);
  }
  state_->model.clear_data_type();
}

DataLayerBatches::~DataLayerBatches() = default;

bool DataLayerBatches::Read(int64_t index, Batch* batch) {
  if (!state_->net || index < state_->next) {
    state_->net = TestNet(state_->model, state_->device);
    state_->next = 0;
  }
  for (; state_->next <= index; ++state_->next) state_->net->Forward();
  batch->labels.clear();
  batch->items = -1;
  for (const std::string& name : state_->net->blob_names()) {
    batch->values[name] = RealValues(*state_->net->BlobByName(name));
  }
  return true;
}

bool HasDataLayers(const NetParameter& model) {
  const NetParameter layers = Layers(*TestNet(model, Runtime::Get().cpu()));
  for (const LayerParameter& layer : layers.layer()) {
    const LayerTraits& traits = TraitsOf(layer.type());
    if (traits.data && !traits.input) return true;
  }
  return false;
}

std::string ImageInput(const NetParameter& model, std::vector<int64_t>* shape) {
  const auto net = TestNet(model, Runtime::Get().cpu());
  const std::vector<int>& inputs = net->input_blob_indices();
  CAFFE_CHECK(inputs.size() == 1, "net ", net->name(), " has ", inputs.size(),
              " inputs; a list of images fills one");
  *shape = net->blobs()[inputs[0]]->shape();
  return net->blob_names()[inputs[0]];
}

}  // namespace caffe
