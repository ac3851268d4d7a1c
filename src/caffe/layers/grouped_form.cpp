#include "grouped_form.hpp"

#include <optional>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

std::optional<GroupedForm> FormOf(const LayerParameter& layer) {
  const auto& form = TraitsOf(layer.type()).grouped_form;
  if (!form || layer.bottom_size() != 1 || layer.top_size() != 1) return std::nullopt;
  return form(layer);
}

}  // namespace

std::string WhyNotGrouped(const std::vector<LayerParameter>& layers) {
  for (const LayerParameter& layer : layers) {
    if (FormOf(layer)) continue;
    const auto& per_item = TraitsOf(layer.type()).per_item;
    if (!per_item || layer.loss_weight_size() > 0) {
      return Concat("layer ", layer.name(), " (", layer.type(), ") has no grouped form");
    }
    if (!per_item(layer)) {
      return Concat("layer ", layer.name(), " (", layer.type(), ") may mix the items of a batch");
    }
  }
  return "";
}

int MakeGrouped(const std::vector<const LayerParameter*>& experts, int64_t select,
                const std::string& offsets, LayerParameter* layer) {
  const std::optional<GroupedForm> form = FormOf(*layer);
  if (!form) return 0;
  layer->set_type(form->type);
  layer->add_bottom(offsets);
  layer->mutable_moe_param()->set_experts(static_cast<int64_t>(experts.size()));
  layer->mutable_moe_param()->set_select_experts(select);
  layer->clear_param();
  for (const LayerParameter* expert : experts) {
    for (int b = 0; b < form->blobs; ++b) {
      *layer->add_param() = b < expert->param_size() ? expert->param(b) : ParamSpec();
    }
  }
  return form->blobs;
}

std::string WhyNoJointOp(const LayerParameter& layer, DataType real, Device* device) {
  const std::optional<GroupedForm> form = FormOf(layer);
  if (!form) return "";
  DataType type = real;
  if (layer.has_compute_data_type()) type = DataTypeByProto(layer.compute_data_type());
  if (layer.has_compute_data_type_name()) type = DataTypeByName(layer.compute_data_type_name());
  if (form->joint(type, device)) return "";
  return Concat("no library of ", device->info().id, " computes layer ", layer.name(), " (",
                layer.type(), ") in ", type.name(), " for the rows of all experts");
}

}  // namespace caffe
