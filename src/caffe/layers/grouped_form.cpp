#include "grouped_form.hpp"

#include <functional>
#include <map>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {
namespace {

using Condition = std::function<bool(const LayerParameter&)>;

bool Yes(const LayerParameter&) { return true; }

// Layers without parameters that compute each item by itself, and when they do.
const std::map<std::string, Condition>& PerItem() {
  static const std::map<std::string, Condition> layers = [] {
    std::map<std::string, Condition> out;
    for (const char* type :
         {"AbsVal",  "BNLL",    "Clip",      "Crop",  "Dropout", "ELU",
          "Eltwise", "Exp",     "Interp",    "LRN",   "Log",     "Noise",
          "Pooling", "Power",   "Quantizer", "ReLU",  "ReLU6",   "ShuffleChannel",
          "Sigmoid", "Silence", "Split",     "Swish", "TanH",    "Threshold",
          "Upsample"}) {
      out[type] = Yes;
    }
    out["Concat"] = [](const LayerParameter& layer) {
      return layer.concat_param().axis() > 0 && !layer.concat_param().has_concat_dim();
    };
    out["Flatten"] = [](const LayerParameter& layer) { return layer.flatten_param().axis() > 0; };
    out["Permute"] = [](const LayerParameter& layer) {
      return layer.permute_param().order_size() > 0 && layer.permute_param().order(0) == 0;
    };
    out["Reshape"] = [](const LayerParameter& layer) {
      const ReshapeParameter& parameter = layer.reshape_param();
      const bool keeps = parameter.shape().dim_size() > 0 && parameter.shape().dim(0) == 0;
      return parameter.axis() > 0 || (parameter.axis() == 0 && keeps);
    };
    out["Slice"] = [](const LayerParameter& layer) {
      return layer.slice_param().axis() > 0 && !layer.slice_param().has_slice_dim();
    };
    out["Softmax"] = [](const LayerParameter& layer) { return layer.softmax_param().axis() > 0; };
    out["Tile"] = [](const LayerParameter& layer) { return layer.tile_param().axis() > 0; };
    return out;
  }();
  return layers;
}

const std::map<std::string, std::string>& GroupedTypes() {
  static const std::map<std::string, std::string> types{{"Convolution", "GroupedConvolution"},
                                                        {"InnerProduct", "GroupedInnerProduct"}};
  return types;
}

bool HasGroupedForm(const LayerParameter& layer) {
  if (layer.bottom_size() != 1 || layer.top_size() != 1) return false;
  if (layer.type() == "InnerProduct") return layer.inner_product_param().axis() == 1;
  return layer.type() == "Convolution" && layer.convolution_param().axis() == 1;
}

}  // namespace

std::string WhyNotGrouped(const std::vector<LayerParameter>& layers) {
  for (const LayerParameter& layer : layers) {
    if (HasGroupedForm(layer)) continue;
    const auto found = PerItem().find(layer.type());
    if (found == PerItem().end() || layer.loss_weight_size() > 0) {
      return Concat("layer ", layer.name(), " (", layer.type(), ") has no grouped form");
    }
    if (!found->second(layer)) {
      return Concat("layer ", layer.name(), " (", layer.type(), ") may mix the items of a batch");
    }
  }
  return "";
}

void MakeGrouped(const std::vector<const LayerParameter*>& experts, int64_t select,
                 const std::string& offsets, LayerParameter* layer) {
  if (!HasGroupedForm(*layer)) return;
  layer->set_type(GroupedTypes().at(layer->type()));
  layer->add_bottom(offsets);
  layer->mutable_moe_param()->set_experts(static_cast<int64_t>(experts.size()));
  layer->mutable_moe_param()->set_select_experts(select);
  const int blobs = GroupedBlobs(*layer);
  layer->clear_param();
  for (const LayerParameter* expert : experts) {
    for (int b = 0; b < blobs; ++b) {
      *layer->add_param() = b < expert->param_size() ? expert->param(b) : ParamSpec();
    }
  }
}

std::string WhyNoJointOp(const LayerParameter& layer, DataType real, Device* device) {
  if (!HasGroupedForm(layer)) return "";
  DataType type = real;
  if (layer.has_compute_data_type()) type = DataTypeByProto(layer.compute_data_type());
  if (layer.has_compute_data_type_name()) type = DataTypeByName(layer.compute_data_type_name());
  // Numbers that every library supports.
  constexpr int64_t kGroups = 4, kItems = 16, kChannels = 64;
  bool known = false;
  if (layer.type() == "Convolution") {
    ConvDescriptor d;
    d.batch = kItems;
    d.row_groups = kGroups;
    d.in_channels = d.out_channels = kChannels;
    d.geometry.input = {8, 8};
    d.geometry.kernel = {3, 3};
    d.in = d.out = type;
    d.x_layout = d.y_layout = Layout::kNHWC;
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    d.epilogue.bias_type = d.master();
    known = Multiplexer::KnowsRowGroups(device, d);
  } else {
    GemmDescriptor d;
    d.m = kItems;
    d.row_groups = kGroups;
    d.n = d.k = kChannels;
    d.trans_b = type.is_quantized() || !layer.inner_product_param().transpose();
    d.in = d.out = type;
    d.constant = GemmDescriptor::Weights::kB;
    d.epilogue.bias = Epilogue::Bias::kPerColumn;
    d.epilogue.bias_type = type == kDouble ? kDouble : kFloat;
    known = Multiplexer::KnowsRowGroups(device, d);
  }
  if (known) return "";
  return Concat("no library of ", device->info().id, " computes layer ", layer.name(), " (",
                layer.type(), ") in ", type.name(), " for the rows of all experts");
}

int GroupedBlobs(const LayerParameter& layer) {
  if (layer.type() == "GroupedConvolution") return 1 + layer.convolution_param().bias_term();
  if (layer.type() == "GroupedInnerProduct") return 1 + layer.inner_product_param().bias_term();
  return 0;
}

}  // namespace caffe
