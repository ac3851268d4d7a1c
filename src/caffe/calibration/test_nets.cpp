#include "test_nets.hpp"

#include <algorithm>

#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

std::vector<const google::protobuf::FieldDescriptor*> TypeFields() {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  for (const char* part : {"bottom", "compute", "top"}) {
    for (const char* end : {"_data_type", "_data_type_name"}) {
      fields.push_back(LayerParameter::descriptor()->FindFieldByName(std::string(part) + end));
    }
  }
  return fields;
}

}  // namespace

std::unique_ptr<Net> TestNet(const NetParameter& model, Device* device) {
  NetOptions options;
  options.device = device;
  options.phase = TEST;
  options.seed = 1;
  return std::make_unique<Net>(model, options);
}

void RemoveTypes(LayerParameter* layer) {
  for (const auto* field : TypeFields()) layer->GetReflection()->ClearField(layer, field);
}

bool HasTypes(const LayerParameter& layer) {
  const auto fields = TypeFields();
  return std::any_of(fields.begin(), fields.end(), [&](const auto* field) {
    return layer.GetReflection()->HasField(layer, field);
  });
}

void CopyTypes(LayerParameter from, LayerParameter* layer) {
  layer->GetReflection()->SwapFields(layer, &from, TypeFields());
}

void SetTypes(DataType type, LayerParameter* layer) {
  RemoveTypes(layer);
  const auto number = static_cast<DataTypeProto>(type.info().proto);
  layer->set_bottom_data_type(number);
  layer->set_compute_data_type(number);
  layer->set_top_data_type(number);
}

void RemoveTypes(NetParameter* net) {
  net->clear_data_type();
  net->clear_data_type_name();
  for (LayerParameter& layer : *net->mutable_layer()) {
    RemoveTypes(&layer);
    if (!layer.has_moe_param()) continue;
    MOEParameter* const moe = layer.mutable_moe_param();
    if (moe->has_gating_net()) RemoveTypes(moe->mutable_gating_net());
    for (NetParameter& expert : *moe->mutable_expert_net()) RemoveTypes(&expert);
  }
}

NetParameter InFloat(NetParameter net) {
  RemoveTypes(&net);
  net.set_data_type(CAFFE_FLOAT);
  net.clear_quantizer();
  if (net.state().quantizer_mode() == CAFFE_QUANT_DYNAMIC) {
    net.mutable_state()->clear_quantizer_mode();
  }
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (QuantizerParameter& quantizer : *layer.mutable_bottom_quantizer()) {
      if (quantizer.mode() == CAFFE_QUANT_DYNAMIC) quantizer.clear_mode();
    }
  }
  return net;
}

void SetExpertTypes(DataType type, LayerParameter* layer) {
  if (!layer->has_moe_param()) return;
  for (NetParameter& expert : *layer->mutable_moe_param()->mutable_expert_net()) {
    for (LayerParameter& nested : *expert.mutable_layer()) SetExpertTypes(type, &nested);
    if (expert.has_data_type() || expert.has_data_type_name()) continue;
    expert.set_data_type(static_cast<DataTypeProto>(type.info().proto));
    if (type.is_custom()) expert.set_data_type_name(type.name());
  }
}

bool Contains(const google::protobuf::RepeatedPtrField<std::string>& list,
              const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool IsInPlace(const LayerParameter& layer) {
  return layer.top_size() > 0 && Contains(layer.bottom(), layer.top(0));
}

bool HoldsBottoms(const Net& net, int layer) {
  const std::vector<int>& bottoms = net.bottom_ids(layer);
  for (int later = layer; later < static_cast<int>(net.layers().size()); ++later) {
    const std::vector<int>& tops = net.top_ids(later);
    if (std::find_first_of(tops.begin(), tops.end(), bottoms.begin(), bottoms.end()) !=
        tops.end()) {
      return false;
    }
  }
  return true;
}

NetParameter Layers(const Net& net) {
  NetParameter layers;
  net.ToProto(&layers);
  for (LayerParameter& layer : *layers.mutable_layer()) layer.clear_blobs();
  return layers;
}

NetParameter WithInputs(const Net& net) {
  NetParameter layers = Layers(net);
  for (LayerParameter& layer : *layers.mutable_layer()) {
    if (!IsDataLayer(layer)) continue;
    LayerParameter input;
    input.set_name(layer.name());
    input.set_type("Input");
    for (const std::string& top : layer.top()) {
      input.add_top(top);
      BlobShape* shape = input.mutable_input_param()->add_shape();
      for (const int64_t extent : net.BlobByName(top)->shape()) shape->add_dim(extent);
    }
    layer = input;
  }
  return layers;
}

}  // namespace caffe
