#include "flow.hpp"

#include <algorithm>
#include <map>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

template <class Names> bool Has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Flow::Flow(const NetParameter& net) : net_(net) {
  std::map<std::string, BlobUse> current;
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    sources_.emplace_back();
    readers_.emplace_back(layer.top_size());
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const auto found = current.find(layer.bottom(b));
      const BlobUse source = found == current.end() ? BlobUse() : found->second;
      sources_.back().push_back(source);
      if (source.layer >= 0) readers_[source.layer][source.index].push_back({i, b});
    }
    for (int t = 0; t < layer.top_size(); ++t) current[layer.top(t)] = {i, t};
  }
}

bool Flow::Writes(const std::string& blob, int after, int before) const {
  for (int i = after + 1; i < before; ++i) {
    if (Has(net_.layer(i).top(), blob)) return true;
  }
  return false;
}

bool Flow::Uses(const std::string& blob, int after, int before) const {
  for (int i = after + 1; i < before; ++i) {
    if (Has(net_.layer(i).bottom(), blob)) return true;
  }
  return Writes(blob, after, before);
}

bool IsRemoved(const LayerParameter& layer) {
  return layer.bottom_size() == 0 && layer.top_size() == 0;
}

NetParameter WithoutRemovedLayers(NetParameter model) {
  const std::vector<std::string> names = UniqueLayerNames(model);
  std::vector<std::string> removed, before;
  auto* layers = model.mutable_layer();
  int kept = 0;
  for (int i = 0; i < layers->size(); ++i) {
    const bool is_removed = IsRemoved(layers->Get(i));
    (is_removed ? removed : before).push_back(names[i]);
    if (is_removed) continue;
    if (kept != i) layers->SwapElements(kept, i);
    ++kept;
  }
  layers->DeleteSubrange(kept, layers->size() - kept);
  RenameRanges(removed, before, &model);
  return model;
}

std::string RangeName(const NetParameter& model, int layer, int top) {
  const std::string& blob = model.layer(layer).top(top);
  for (int later = layer + 1; later < model.layer_size(); ++later) {
    if (Has(model.layer(later).top(), blob)) return blob + "@" + UniqueLayerNames(model)[layer];
  }
  return blob;
}

void RenameRanges(const std::vector<std::string>& removed, const std::vector<std::string>& before,
                  NetParameter* model) {
  const std::vector<std::string> now = UniqueLayerNames(*model);
  if (before == now) return;
  std::map<std::string, std::string> renamed;  // empty: the layer was removed
  for (size_t i = 0; i < now.size(); ++i) renamed[before[i]] = now[i];
  for (const std::string& name : removed) renamed[name] = "";
  auto* entries = model->mutable_quantizer();
  for (int e = entries->size() - 1; e >= 0; --e) {
    const std::string name = entries->Get(e).name();
    for (const auto& [old, fresh] : renamed) {
      const bool parameter = name.starts_with(old + "_blobs_") && name.ends_with("_quant");
      if (!parameter && !name.ends_with("@" + old)) continue;
      if (fresh.empty()) {
        entries->DeleteSubrange(e, 1);
      } else if (parameter) {
        entries->Mutable(e)->set_name(fresh + name.substr(old.size()));
      } else {
        entries->Mutable(e)->set_name(name.substr(0, name.size() - old.size()) + fresh);
      }
      break;
    }
  }
}

std::string LayerTitle(const LayerParameter& layer) {
  return Concat(layer.name(), " (", layer.type(), ")");
}

std::string Bypass(NetParameter* model, int index, KeptName kept) {
  const Flow flow(*model);
  LayerParameter* layer = model->mutable_layer(index);
  const std::string from = layer->bottom(0);
  if (layer->top_size() == 1 && layer->top(0) == from) {
    RemoveLayer(layer);
    return "";
  }
  // The readers read the bottom.
  std::string why;
  bool output = false;
  for (int t = 0; t < layer->top_size(); ++t) {
    output = output || flow.Readers(index, t).empty();
    for (const BlobUse& reader : flow.Readers(index, t)) {
      if (flow.Writes(from, index, reader.layer) || Has(model->layer(reader.layer).top(), from)) {
        why = Concat("blob ", from, " changes before ", model->layer(reader.layer).name(),
                     " reads its copy");
      }
    }
  }
  // Or the layer that writes the bottom writes the top.
  const BlobUse source = flow.Source(index, 0);
  const std::string to = layer->top(0);
  const bool renames =
      layer->top_size() == 1 && source.layer >= 0 &&
      !TraitsOf(model->layer(source.layer).type()).input &&
      flow.Readers(source.layer, source.index).size() == 1 && !flow.Uses(to, source.layer, index) &&
      !Has(model->layer(source.layer).bottom(), to) && !Has(model->layer(source.layer).top(), to);
  if (renames && (output || kept == KeptName::kTop || !why.empty())) {
    model->mutable_layer(source.layer)->set_top(source.index, to);
    RemoveLayer(layer);
    return "";
  }
  if (output) return Concat("its top is an output of the net, and other layers read blob ", from);
  if (!why.empty()) return why;
  for (int t = 0; t < layer->top_size(); ++t) {
    for (const BlobUse& reader : flow.Readers(index, t)) {
      model->mutable_layer(reader.layer)->set_bottom(reader.index, from);
    }
  }
  RemoveLayer(layer);
  return "";
}

void ClearFillers(LayerParameter* layer) {
  // The fields of all parameter messages that are fillers of learned blobs.
  const auto* reflection = layer->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(*layer, &fields);
  using Field = google::protobuf::FieldDescriptor;
  for (const Field* field : fields) {
    if (field->is_repeated() || field->cpp_type() != Field::CPPTYPE_MESSAGE) continue;
    google::protobuf::Message* part = reflection->MutableMessage(layer, field);
    const auto* descriptor = part->GetDescriptor();
    for (int f = 0; f < descriptor->field_count(); ++f) {
      const Field* inner = descriptor->field(f);
      if (!inner->is_repeated() && inner->message_type() == FillerParameter::descriptor()) {
        part->GetReflection()->ClearField(part, inner);
      }
    }
  }
}

std::unique_ptr<Net> MakeNet(const NetParameter& model, Device* device) {
  NetParameter net = model;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.blobs_size() > 0) ClearFillers(&layer);
    layer.clear_blobs();
  }
  NetOptions options;
  options.device = device ? device : Runtime::Get().cpu();
  options.phase = TEST;
  options.seed = 1;
  auto made = std::make_unique<Net>(net, options);
  CAFFE_CHECK(static_cast<int>(made->layers().size()) == model.layer_size(), NetLabel(model.name()),
              ": the rules of layers exclude some of them; pass the layers of phase TEST");
  for (int i = 0; i < model.layer_size(); ++i) {
    const size_t wanted = made->layers()[i]->blobs().size();
    const LayerParameter& layer = model.layer(i);
    CAFFE_CHECK(wanted == static_cast<size_t>(layer.blobs_size()), "layer '", layer.name(), "' (",
                layer.type(), ") has ", wanted, " parameters, but the weights have ",
                layer.blobs_size(), " for it");
  }
  made->CopyTrainedLayersFrom(model);
  return made;
}

}  // namespace caffe
