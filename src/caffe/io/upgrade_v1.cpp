#include "caffe/io/upgrade.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"

namespace caffe {
namespace {

using V1 = V1LayerParameter;

template <class Parameter> bool HasTransformFields(const Parameter& data) {
  return data.has_scale() || data.has_mean_file() || data.has_crop_size() || data.has_mirror();
}

bool NeedsDataUpgrade(const V1& layer) {
  switch (layer.type()) {
    case V1::DATA: return HasTransformFields(layer.data_param());
    case V1::IMAGE_DATA: return HasTransformFields(layer.image_data_param());
    case V1::WINDOW_DATA: return HasTransformFields(layer.window_data_param());
    default: return false;
  }
}

template <class Parameter>
void MoveTransformFields(Parameter* data, TransformationParameter* transform) {
  if (data->has_scale()) transform->set_scale(data->scale());
  if (data->has_mean_file()) transform->set_mean_file(data->mean_file());
  if (data->has_crop_size()) transform->set_crop_size(data->crop_size());
  if (data->has_mirror()) transform->set_mirror(data->mirror());
  data->clear_scale();
  data->clear_mean_file();
  data->clear_crop_size();
  data->clear_mirror();
}

const char* V1TypeName(V1::LayerType type) {
  switch (type) {
    case V1::NONE: return "";
    case V1::ABSVAL: return "AbsVal";
    case V1::ACCURACY: return "Accuracy";
    case V1::ARGMAX: return "ArgMax";
    case V1::BNLL: return "BNLL";
    case V1::CONCAT: return "Concat";
    case V1::CONTRASTIVE_LOSS: return "ContrastiveLoss";
    case V1::CONVOLUTION: return "Convolution";
    case V1::DATA: return "Data";
    case V1::DECONVOLUTION: return "Deconvolution";
    case V1::DROPOUT: return "Dropout";
    case V1::DUMMY_DATA: return "DummyData";
    case V1::ELTWISE: return "Eltwise";
    case V1::EUCLIDEAN_LOSS: return "EuclideanLoss";
    case V1::EXP: return "Exp";
    case V1::FLATTEN: return "Flatten";
    case V1::HDF5_DATA: return "HDF5Data";
    case V1::HDF5_OUTPUT: return "HDF5Output";
    case V1::HINGE_LOSS: return "HingeLoss";
    case V1::IM2COL: return "Im2col";
    case V1::IMAGE_DATA: return "ImageData";
    case V1::INFOGAIN_LOSS: return "InfogainLoss";
    case V1::INNER_PRODUCT: return "InnerProduct";
    case V1::LRN: return "LRN";
    case V1::MEMORY_DATA: return "MemoryData";
    case V1::MULTINOMIAL_LOGISTIC_LOSS: return "MultinomialLogisticLoss";
    case V1::MVN: return "MVN";
    case V1::POOLING: return "Pooling";
    case V1::POWER: return "Power";
    case V1::RELU: return "ReLU";
    case V1::SIGMOID: return "Sigmoid";
    case V1::SIGMOID_CROSS_ENTROPY_LOSS: return "SigmoidCrossEntropyLoss";
    case V1::SILENCE: return "Silence";
    case V1::SLICE: return "Slice";
    case V1::SOFTMAX: return "Softmax";
    case V1::SOFTMAX_LOSS: return "SoftmaxWithLoss";
    case V1::SPLIT: return "Split";
    case V1::TANH: return "TanH";
    case V1::THRESHOLD: return "Threshold";
    case V1::WINDOW_DATA: return "WindowData";
  }
  CAFFE_THROW("V1 layer type ", static_cast<int>(type), " is unknown");
}

ParamSpec* Param(LayerParameter* layer, int i) {
  while (layer->param_size() <= i) layer->add_param();
  return layer->mutable_param(i);
}

// The parameter messages have equal names and types in both formats.
void CopyTypedParameters(const V1& old, LayerParameter* layer) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  old.GetReflection()->ListFields(old, &fields);
  for (const auto* field : fields) {
    const auto* target = LayerParameter::descriptor()->FindFieldByName(field->name());
    if (field->is_repeated() || !field->message_type() || !target) continue;
    layer->GetReflection()
        ->MutableMessage(layer, target)
        ->CopyFrom(old.GetReflection()->GetMessage(old, field));
  }
}

void UpgradeV1Layer(V1* old, LayerParameter* layer) {
  CAFFE_CHECK(!old->has_layer(), old->name(), ": a V0 layer inside a V1 layer");
  layer->mutable_bottom()->Swap(old->mutable_bottom());
  layer->mutable_top()->Swap(old->mutable_top());
  layer->mutable_include()->Swap(old->mutable_include());
  layer->mutable_exclude()->Swap(old->mutable_exclude());
  layer->mutable_blobs()->Swap(old->mutable_blobs());
  layer->mutable_loss_weight()->Swap(old->mutable_loss_weight());
  if (old->has_name()) layer->set_name(old->name());
  if (old->has_type()) layer->set_type(V1TypeName(old->type()));
  for (int i = 0; i < old->param_size(); ++i) Param(layer, i)->set_name(old->param(i));
  for (int i = 0; i < old->blob_share_mode_size(); ++i) {
    const bool permissive = old->blob_share_mode(i) == V1::PERMISSIVE;
    Param(layer, i)->set_share_mode(permissive ? ParamSpec::PERMISSIVE : ParamSpec::STRICT);
  }
  for (int i = 0; i < old->blobs_lr_size(); ++i) Param(layer, i)->set_lr_mult(old->blobs_lr(i));
  for (int i = 0; i < old->weight_decay_size(); ++i) {
    Param(layer, i)->set_decay_mult(old->weight_decay(i));
  }
  CopyTypedParameters(*old, layer);
}

}  // namespace

bool NetNeedsDataUpgrade(const NetParameter& net) {
  return std::ranges::any_of(net.layers(), NeedsDataUpgrade);
}

void UpgradeNetDataTransformation(NetParameter* net) {
  for (V1& layer : *net->mutable_layers()) {
    if (!NeedsDataUpgrade(layer)) continue;
    TransformationParameter* transform = layer.mutable_transform_param();
    if (layer.type() == V1::DATA) {
      MoveTransformFields(layer.mutable_data_param(), transform);
    } else if (layer.type() == V1::IMAGE_DATA) {
      MoveTransformFields(layer.mutable_image_data_param(), transform);
    } else {
      MoveTransformFields(layer.mutable_window_data_param(), transform);
    }
  }
}

bool NetNeedsV1ToV2Upgrade(const NetParameter& net) { return net.layers_size() > 0; }

void UpgradeV1Net(NetParameter* net) {
  CAFFE_CHECK(net->layer_size() == 0,
              "the net has both `layer` and `layers`: write all of them as `layer`");
  for (V1& layer : *net->mutable_layers()) UpgradeV1Layer(&layer, net->add_layer());
  net->clear_layers();
}

}  // namespace caffe
