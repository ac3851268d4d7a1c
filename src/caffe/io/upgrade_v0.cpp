#include "caffe/io/upgrade.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <map>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

using V1 = V1LayerParameter;

bool IsPadding(const V1& layer) { return layer.has_layer() && layer.layer().type() == "padding"; }

// A padding layer adds zeros around its input; convolution and pooling do that themselves.
void FoldPaddingLayers(NetParameter* net) {
  std::map<std::string, const V1*> writers;  // nullptr: an input of the net
  for (const std::string& input : net->input()) writers[input] = nullptr;
  google::protobuf::RepeatedPtrField<V1> layers;
  layers.Swap(net->mutable_layers());
  for (V1& layer : layers) {
    for (std::string& bottom : *layer.mutable_bottom()) {
      const auto writer = writers.find(bottom);
      const std::string& name = layer.layer().name();
      CAFFE_CHECK(writer != writers.end(), name, ": unknown bottom \"", bottom, "\"");
      if (!writer->second || !IsPadding(*writer->second)) continue;
      const V1& padding = *writer->second;
      const std::string& type = layer.layer().type();
      CAFFE_CHECK(type == "conv" || type == "pool", name, " (", type, "): padding layer ",
                  padding.layer().name(), " can only be followed by conv or pool");
      CAFFE_CHECK(layer.bottom_size() == 1 && padding.bottom_size() == 1, name, " (", type,
                  "): it and padding layer ", padding.layer().name(), " must have one bottom each");
      layer.mutable_layer()->set_pad(padding.layer().pad());
      bottom = padding.bottom(0);
    }
    for (const std::string& top : layer.top()) writers[top] = &layer;
  }
  for (V1& layer : layers) {
    if (!IsPadding(layer)) net->add_layers()->Swap(&layer);
  }
}

const std::map<std::string, V1::LayerType>& V0Types() {
  static const std::map<std::string, V1::LayerType> types{
      {"accuracy", V1::ACCURACY},
      {"bnll", V1::BNLL},
      {"concat", V1::CONCAT},
      {"conv", V1::CONVOLUTION},
      {"data", V1::DATA},
      {"dropout", V1::DROPOUT},
      {"euclidean_loss", V1::EUCLIDEAN_LOSS},
      {"flatten", V1::FLATTEN},
      {"hdf5_data", V1::HDF5_DATA},
      {"hdf5_output", V1::HDF5_OUTPUT},
      {"im2col", V1::IM2COL},
      {"images", V1::IMAGE_DATA},
      {"infogain_loss", V1::INFOGAIN_LOSS},
      {"innerproduct", V1::INNER_PRODUCT},
      {"lrn", V1::LRN},
      {"multinomial_logistic_loss", V1::MULTINOMIAL_LOGISTIC_LOSS},
      {"pool", V1::POOLING},
      {"relu", V1::RELU},
      {"sigmoid", V1::SIGMOID},
      {"softmax", V1::SOFTMAX},
      {"softmax_loss", V1::SOFTMAX_LOSS},
      {"split", V1::SPLIT},
      {"tanh", V1::TANH},
      {"window_data", V1::WINDOW_DATA},
  };
  return types;
}

// Sets the field `name` of a message to the value of a V0 field. Returns false if the message has
// no such field.
bool SetByName(const google::protobuf::Message& from,
               const google::protobuf::FieldDescriptor& source, const std::string& name,
               google::protobuf::Message* to) {
  using google::protobuf::FieldDescriptor;
  const FieldDescriptor* target = to->GetDescriptor()->FindFieldByName(name);
  if (!target) return false;
  const auto* in = from.GetReflection();
  const auto* out = to->GetReflection();
  switch (source.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const uint32_t value = in->GetUInt32(from, &source);
      target->is_repeated() ? out->AddUInt32(to, target, value) : out->SetUInt32(to, target, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_INT32:  // the height and width of resized images
      out->SetUInt32(to, target, static_cast<uint32_t>(in->GetInt32(from, &source)));
      return true;
    case FieldDescriptor::CPPTYPE_FLOAT:
      out->SetFloat(to, target, in->GetFloat(from, &source));
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      out->SetBool(to, target, in->GetBool(from, &source));
      return true;
    case FieldDescriptor::CPPTYPE_STRING:
      out->SetString(to, target, in->GetString(from, &source));
      return true;
    case FieldDescriptor::CPPTYPE_ENUM:
      out->SetEnumValue(to, target, in->GetEnumValue(from, &source));
      return true;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      out->MutableMessage(to, target)->CopyFrom(in->GetMessage(from, &source));
      return true;
    default: return false;
  }
}

// V0 field -> the field of the layer's parameter message that replaced it.
const std::map<std::string, std::string>& V0Fields() {
  static const std::map<std::string, std::string> fields{
      {"num_output", "num_output"},
      {"biasterm", "bias_term"},
      {"weight_filler", "weight_filler"},
      {"bias_filler", "bias_filler"},
      {"pad", "pad"},
      {"kernelsize", "kernel_size"},
      {"group", "group"},
      {"stride", "stride"},
      {"pool", "pool"},
      {"dropout_ratio", "dropout_ratio"},
      {"local_size", "local_size"},
      {"alpha", "alpha"},
      {"beta", "beta"},
      {"k", "k"},
      {"source", "source"},
      {"batchsize", "batch_size"},
      {"rand_skip", "rand_skip"},
      {"new_height", "new_height"},
      {"new_width", "new_width"},
      {"shuffle_images", "shuffle"},
      {"concat_dim", "concat_dim"},
      {"det_fg_threshold", "fg_threshold"},
      {"det_bg_threshold", "bg_threshold"},
      {"det_fg_fraction", "fg_fraction"},
      {"det_context_pad", "context_pad"},
      {"det_crop_mode", "crop_mode"},
  };
  return fields;
}

const std::map<std::string, std::string>& V0TransformFields() {
  static const std::map<std::string, std::string> fields{{"scale", "scale"},
                                                         {"meanfile", "mean_file"},
                                                         {"cropsize", "crop_size"},
                                                         {"mirror", "mirror"}};
  return fields;
}

// The parameter message of a V0 type, or nullptr if it has none.
google::protobuf::Message* V0Target(V1* layer) {
  switch (layer->type()) {
    case V1::CONCAT: return layer->mutable_concat_param();
    case V1::CONVOLUTION:
    case V1::IM2COL: return layer->mutable_convolution_param();
    case V1::DATA: return layer->mutable_data_param();
    case V1::DROPOUT: return layer->mutable_dropout_param();
    case V1::HDF5_DATA: return layer->mutable_hdf5_data_param();
    case V1::IMAGE_DATA: return layer->mutable_image_data_param();
    case V1::INFOGAIN_LOSS: return layer->mutable_infogain_loss_param();
    case V1::INNER_PRODUCT: return layer->mutable_inner_product_param();
    case V1::LRN: return layer->mutable_lrn_param();
    case V1::POOLING: return layer->mutable_pooling_param();
    case V1::WINDOW_DATA: return layer->mutable_window_data_param();
    default: return nullptr;
  }
}

void UpgradeV0Field(const V0LayerParameter& old, const google::protobuf::FieldDescriptor& field,
                    V1* layer) {
  const std::string& name = field.name();
  if (name == "name" || name == "type" || name == "blobs" || name == "blobs_lr" ||
      name == "weight_decay") {
    return;
  }
  if (name == "hdf5_output_param" && layer->type() == V1::HDF5_OUTPUT) {
    layer->mutable_hdf5_output_param()->CopyFrom(old.hdf5_output_param());
    return;
  }
  const auto transform = V0TransformFields().find(name);
  if (transform != V0TransformFields().end()) {
    SetByName(old, field, transform->second, layer->mutable_transform_param());
    return;
  }
  const auto typed = V0Fields().find(name);
  google::protobuf::Message* target = V0Target(layer);
  if (typed == V0Fields().end() || !target || !SetByName(old, field, typed->second, target)) {
    log::Error(Concat(old.name(), " (", old.type(), "): field ", name,
                      " does not belong to this type of layer and is dropped"));
  }
}

void UpgradeV0Layer(V1* layer) {
  V1 upgraded;
  upgraded.mutable_bottom()->Swap(layer->mutable_bottom());
  upgraded.mutable_top()->Swap(layer->mutable_top());
  V0LayerParameter& old = *layer->mutable_layer();
  if (old.has_name()) upgraded.set_name(old.name());
  if (old.has_type()) {
    const auto type = V0Types().find(old.type());
    CAFFE_CHECK(type != V0Types().end(), old.name(), ": unknown V0 layer type \"", old.type(),
                "\"");
    upgraded.set_type(type->second);
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  old.GetReflection()->ListFields(old, &fields);
  for (const auto* field : fields) UpgradeV0Field(old, *field, &upgraded);
  upgraded.mutable_blobs()->Swap(old.mutable_blobs());
  upgraded.mutable_blobs_lr()->Swap(old.mutable_blobs_lr());
  upgraded.mutable_weight_decay()->Swap(old.mutable_weight_decay());
  layer->Swap(&upgraded);
}

}  // namespace

bool NetNeedsV0ToV1Upgrade(const NetParameter& net) {
  return std::ranges::any_of(net.layers(), [](const V1& layer) { return layer.has_layer(); });
}

void UpgradeV0Net(NetParameter* net) {
  FoldPaddingLayers(net);
  for (V1& layer : *net->mutable_layers()) {
    if (layer.has_layer()) UpgradeV0Layer(&layer);
  }
}

}  // namespace caffe
