#include <algorithm>
#include <map>

#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "maps.hpp"

namespace caffe {
namespace {

bool AllFloat(const LayerBase& layer) { return layer.types() == TypeTriple::Equal(kFloat); }

// The layers whose tops depend on no input and are the same in every forward.
std::vector<bool> ConstantLayers(const NetParameter& model, const Net& net) {
  const Flow flow(model);
  std::vector<bool> constant(model.layer_size(), false);
  for (int i = 0; i < model.layer_size(); ++i) {
    const LayerParameter& layer = model.layer(i);
    const LayerTraits& traits = TraitsOf(layer.type());
    const LayerFacts facts = net.layers()[i]->Facts();
    if (facts.host || traits.loss || layer.top_size() == 0 || layer.loss_weight_size() > 0 ||
        !AllFloat(*net.layers()[i])) {
      continue;
    }
    if (layer.bottom_size() == 0) {
      constant[i] = (traits.data && !traits.input) || traits.top_memory == TopMemory::kParameter;
      continue;
    }
    constant[i] = facts.replayable;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const BlobUse source = flow.Source(i, b);
      constant[i] = constant[i] && source.layer >= 0 && constant[source.layer];
    }
  }
  return constant;
}

// Computes constant layers once; what other layers read of them becomes Parameter layers.
void EvaluateConstants(NetParameter* model, const Net& net, TransformNotes* notes) {
  const bool has_input =
      std::any_of(model->layer().begin(), model->layer().end(), [](const LayerParameter& layer) {
        const LayerTraits& traits = TraitsOf(layer.type());
        return traits.input || (IsDataLayer(layer) && !layer.has_dummy_data_param());
      });
  std::vector<bool> constant = ConstantLayers(*model, net);
  if (!has_input) {
    if (std::find(constant.begin(), constant.end(), true) != constant.end()) {
      notes->push_back("the net has no input, so no layer is computed as a constant");
    }
    return;
  }
  const Flow flow(*model);
  NetParameter part;
  std::vector<int> indices;
  for (int i = 0; i < model->layer_size(); ++i) {
    if (!constant[i]) continue;
    *part.add_layer() = model->layer(i);
    indices.push_back(i);
  }
  const bool computes = std::any_of(indices.begin(), indices.end(),
                                    [&](int i) { return model->layer(i).bottom_size() > 0; });
  if (!computes) return;
  part.set_name(model->name());
  const auto constants = MakeNet(part);
  std::map<int, std::vector<LayerParameter>> made;  // by the index of the layer
  for (size_t p = 0; p < indices.size(); ++p) {
    const int i = indices[p], at = static_cast<int>(p);
    constants->Forward(at, at);
    const LayerParameter& layer = model->layer(i);
    std::vector<int> read;  // tops that other layers read, or that are outputs of the net
    for (int t = 0; t < layer.top_size(); ++t) {
      const auto& readers = flow.Readers(i, t);
      const bool leaves = std::any_of(readers.begin(), readers.end(),
                                      [&](const BlobUse& use) { return !constant[use.layer]; });
      if (leaves || readers.empty()) read.push_back(t);
    }
    if (layer.bottom_size() == 0 && !read.empty()) continue;  // made without arithmetic
    std::vector<LayerParameter>& parameters = made[i];
    for (const int t : read) {
      const BlobBase& value = *constants->blobs()[constants->top_ids(at)[t]];
      LayerParameter parameter;
      parameter.set_name(read.size() == 1 ? layer.name() : Concat(layer.name(), "_", layer.top(t)));
      parameter.set_type("Parameter");
      parameter.add_top(layer.top(t));
      BlobShape* shape = parameter.mutable_parameter_param()->mutable_shape();
      for (const int64_t extent : value.shape()) shape->add_dim(extent);
      SetValues(value.DataAsDouble(), value.shape(), parameter.add_blobs());
      parameters.push_back(parameter);
    }
    notes->push_back(LayerTitle(layer) + (read.empty()
                                              ? " is computed once, in the layers that read it"
                                              : " is computed once and becomes a Parameter layer"));
  }
  const std::vector<std::string> names = UniqueLayerNames(*model);
  std::vector<std::string> removed, before;
  NetParameter rebuilt = *model;
  rebuilt.clear_layer();
  for (int i = 0; i < model->layer_size(); ++i) {
    const auto found = made.find(i);
    if (found == made.end()) {
      *rebuilt.add_layer() = std::move(*model->mutable_layer(i));
      before.push_back(names[i]);
      continue;
    }
    if (found->second.empty()) removed.push_back(names[i]);
    for (LayerParameter& parameter : found->second) {
      // Several parameters of one layer: those after the first have no ranges yet.
      before.push_back(&parameter == &found->second.front() ? names[i] : parameter.name());
      *rebuilt.add_layer() = std::move(parameter);
    }
  }
  *model = std::move(rebuilt);
  RenameRanges(removed, before, model);
}

void SetPower(double scale, double shift, LayerParameter* layer) {
  PowerParameter* power = layer->mutable_power_param();
  power->set_scale(static_cast<float>(scale));
  power->set_shift(static_cast<float>(shift));
}

// Whether y = (shift + scale x)^power with a power that is not 0: its linear part can be changed.
bool IsPower(const LayerParameter& layer, const LayerFacts& facts) {
  return layer.has_power_param() && (facts.affine || facts.function) &&
         layer.power_param().power() != 0;
}

// Joins a map with the layer that reads it.
void JoinMaps(NetParameter* model, TransformNotes* notes) {
  const auto net = MakeNet(*model);
  std::vector<LayerFacts> facts;
  std::vector<MapValues> values(model->layer_size());
  for (int i = 0; i < model->layer_size(); ++i) {
    facts.push_back(net->layers()[i]->Facts());
    const bool one = model->layer(i).bottom_size() == 1 && model->layer(i).top_size() == 1;
    if (!one || model->layer(i).loss_weight_size() > 0) facts[i].affine.reset();
    if (facts[i].affine) values[i] = Evaluate(*facts[i].affine);
  }
  for (int i = 0; i < model->layer_size(); ++i) {
    if (!facts[i].affine) continue;
    const std::string title = LayerTitle(model->layer(i));
    const DataType type = net->layers()[i]->types().compute;
    if (!type.is_float() || net->layers()[i]->types() != TypeTriple::Equal(type)) continue;
    const bool learned = !facts[i].affine->sources.empty();
    const MapValues& map = values[i];
    if (!learned && map.scale[0] == 1 && map.shift[0] == 0) {
      const std::string why = Bypass(model, i, KeptName::kBottom);
      notes->push_back(title +
                       (why.empty() ? " is removed: it is the identity" : " stays: " + why));
      continue;
    }
    const Flow flow(*model);
    const auto& readers = flow.Readers(i, 0);
    if (readers.size() != 1) continue;
    const int next = readers[0].layer;
    const LayerParameter& reader = model->layer(next);
    if (reader.bottom_size() != 1 || net->layers()[next]->types() != TypeTriple::Equal(type)) {
      continue;
    }
    const std::string reader_title = LayerTitle(reader);
    if (!learned && IsPower(reader, facts[next])) {
      const MapValues linear{{reader.power_param().scale()}, {reader.power_param().shift()}};
      const MapValues joined = Join(map, linear);
      if (!FitsFloat(joined) || !Bypass(model, i, KeptName::kBottom).empty()) continue;
      SetPower(joined.scale[0], joined.shift[0], model->mutable_layer(next));
      values[next] = joined;  // read if the reader is linear, too
      notes->push_back(title + " is joined with " + reader_title);
      continue;
    }
    if (!facts[next].affine) continue;
    const Affine &first = *facts[i].affine, &second = *facts[next].affine;
    const bool both = first.channels > 1 && second.channels > 1;
    if (both && (first.channels != second.channels || first.axis != second.axis)) continue;
    if (first.channels == 1 && second.channels == 1) continue;
    const MapValues joined = Join(map, values[next]);
    if (!FitsFloat(joined) || !Bypass(model, i, KeptName::kBottom).empty()) continue;
    const Affine channels = first.channels > 1 ? first : second;
    LayerParameter scale = reader;
    scale.set_type("Scale");
    scale.clear_batch_norm_param();
    scale.clear_bias_param();
    scale.clear_scale_param();
    scale.clear_power_param();
    scale.clear_dropout_param();
    scale.clear_param();
    scale.clear_blobs();
    scale.mutable_scale_param()->set_axis(channels.axis);
    scale.mutable_scale_param()->set_bias_term(true);
    const Shape shape{channels.channels};
    SetValues(joined.scale, shape, scale.add_blobs());
    SetValues(joined.shift, shape, scale.add_blobs());
    *model->mutable_layer(next) = scale;
    // The joined map may be joined with the next one.
    values[next] = joined;
    facts[next].affine->axis = channels.axis;
    facts[next].affine->channels = channels.channels;
    if (second.sources.empty()) facts[next].affine->sources = first.sources;
    notes->push_back(title + " is joined with " + reader_title + " into one Scale layer");
  }
}

}  // namespace

NetParameter FoldConstants(NetParameter model, TransformNotes* notes) {
  {
    const auto net = MakeNet(model);
    EvaluateConstants(&model, *net, notes);
  }
  model = WithoutRemovedLayers(std::move(model));
  {
    const auto net = MakeNet(model);
    FoldIntoWeights(&model, *net, MapKind::kConstant, notes);
  }
  model = WithoutRemovedLayers(std::move(model));
  JoinMaps(&model, notes);
  return WithoutRemovedLayers(std::move(model));
}

}  // namespace caffe
