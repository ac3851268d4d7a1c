#include <algorithm>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// A loss, an accuracy, or a layer without tops.
bool IsSink(const LayerTraits& traits) {
  return traits.loss || traits.max_top == 0 || (!traits.backward && !traits.float_bottoms.empty());
}

bool IsConstantData(const LayerParameter& layer) {
  if (!layer.has_dummy_data_param()) return false;
  const auto& fillers = layer.dummy_data_param().data_filler();
  return std::all_of(fillers.begin(), fillers.end(),
                     [](const FillerParameter& filler) { return filler.type() == "constant"; });
}

std::vector<Shape> TopShapes(const LayerParameter& layer, const Shape& given) {
  std::vector<Shape> shapes;
  if (!given.empty()) {
    shapes.push_back(given);
    // Labels: one for each item.
    while (static_cast<int>(shapes.size()) < layer.top_size()) shapes.push_back({given[0]});
    return shapes;
  }
  NetParameter alone;
  *alone.add_layer() = layer;
  alone.mutable_layer(0)->clear_blobs();
  try {
    const auto net = MakeNet(alone);
    for (const int top : net->top_ids(0)) shapes.push_back(net->blobs()[top]->shape());
  } catch (const Error& error) {
    CAFFE_THROW(LayerTitle(layer), ": the shape of its data is not known; give -shape N,C,H,W (",
                error.what(), ")");
  }
  return shapes;
}

void MakeInput(LayerParameter* layer, const std::vector<Shape>& shapes) {
  LayerParameter input;
  input.set_name(layer->name());
  input.set_type("Input");
  for (int t = 0; t < layer->top_size(); ++t) {
    input.add_top(layer->top(t));
    BlobShape* shape = input.mutable_input_param()->add_shape();
    for (const int64_t extent : shapes[t]) shape->add_dim(extent);
  }
  *layer = input;
}

std::vector<BlobUse> NamedOutputs(const NetParameter& model,
                                  const std::vector<std::string>& names) {
  std::vector<BlobUse> uses;
  for (const std::string& name : names) {
    BlobUse last;
    for (int i = 0; i < model.layer_size(); ++i) {
      for (int t = 0; t < model.layer(i).top_size(); ++t) {
        if (model.layer(i).top(t) == name) last = {i, t};
      }
    }
    CAFFE_CHECK(last.layer >= 0, NetLabel(model.name()), ": there is no blob '", name,
                "' to keep as an output");
    uses.push_back(last);
  }
  return uses;
}

void KeepOnly(NetParameter* model, const std::vector<BlobUse>& wanted, TransformNotes* notes) {
  const Flow flow(*model);
  std::set<std::pair<int, int>> needed;
  std::set<int> layers;
  std::vector<BlobUse> work = wanted;
  while (!work.empty()) {
    const BlobUse use = work.back();
    work.pop_back();
    if (use.layer < 0 || !needed.insert({use.layer, use.index}).second) continue;
    if (!layers.insert(use.layer).second) continue;
    for (int b = 0; b < model->layer(use.layer).bottom_size(); ++b) {
      work.push_back(flow.Source(use.layer, b));
    }
  }
  for (int i = 0; i < model->layer_size(); ++i) {
    LayerParameter* layer = model->mutable_layer(i);
    if (IsRemoved(*layer)) continue;
    if (layers.count(i) == 0) {
      notes->push_back(LayerTitle(*layer) + " is removed: no output depends on it");
      RemoveLayer(layer);
      continue;
    }
    const LayerTraits& traits = TraitsOf(layer->type());
    if (!traits.input && traits.top_memory != TopMemory::kShared) continue;
    for (int t = layer->top_size() - 1; t >= 0; --t) {
      if (needed.count({i, t}) > 0) continue;
      if (traits.input) {
        notes->push_back(Concat("input ", layer->top(t), " is removed: no output depends on it"));
        InputParameter* input = layer->mutable_input_param();
        if (input->shape_size() == layer->top_size()) {
          input->mutable_shape()->DeleteSubrange(t, 1);
        }
      }
      layer->mutable_top()->DeleteSubrange(t, 1);
    }
  }
}

void ClearTraining(NetParameter* model) {
  for (const char* field : {"force_backward", "debug_info", "state"}) {
    model->GetReflection()->ClearField(model, model->GetDescriptor()->FindFieldByName(field));
  }
  for (LayerParameter& layer : *model->mutable_layer()) {
    layer.clear_phase();
    layer.clear_include();
    layer.clear_exclude();
    layer.clear_loss_weight();
    layer.clear_propagate_down();
    bool named = false;
    for (ParamSpec& spec : *layer.mutable_param()) {
      spec.clear_lr_mult();
      spec.clear_decay_mult();
      named = named || !spec.name().empty();
    }
    if (!named) layer.clear_param();
    if (layer.blobs_size() > 0) ClearFillers(&layer);
    for (BlobProto& blob : *layer.mutable_blobs()) {
      blob.clear_diff();
      blob.clear_double_diff();
      blob.clear_packed_diff();
    }
  }
}

}  // namespace

NetParameter MakeRunnable(NetParameter model, const StripOptions& options, TransformNotes* notes,
                          std::vector<BlobUse>* wanted) {
  // DummyData of constants is a constant, unless the net has no other input.
  bool has_input = false;
  for (const LayerParameter& layer : model.layer()) {
    has_input = has_input || (IsDataLayer(layer) && !IsConstantData(layer));
  }
  const auto is_source = [&](const LayerParameter& layer) {
    return IsDataLayer(layer) && !(has_input && IsConstantData(layer));
  };
  *wanted = NamedOutputs(model, options.outputs);
  if (wanted->empty()) {
    const Flow flow(model);
    const auto add = [&](const BlobUse& use) {
      const bool computed = use.layer >= 0 && !is_source(model.layer(use.layer));
      if (computed && std::find(wanted->begin(), wanted->end(), use) == wanted->end()) {
        wanted->push_back(use);
      }
    };
    for (int i = 0; i < model.layer_size(); ++i) {
      const LayerParameter& layer = model.layer(i);
      const LayerTraits& traits = TraitsOf(layer.type());
      if (!IsSink(traits)) {
        for (int t = 0; t < layer.top_size(); ++t) {
          if (flow.Readers(i, t).empty()) add({i, t});
        }
      } else if (!traits.float_bottoms.empty() || traits.loss) {
        for (int b = 0; b < layer.bottom_size(); ++b) {
          if (!Has(traits.float_bottoms, b)) add(flow.Source(i, b));
        }
      }
    }
  }
  for (const BlobUse& use : *wanted) {
    CAFFE_CHECK(!IsSink(TraitsOf(model.layer(use.layer).type())), NetLabel(model.name()),
                ": blob '", model.layer(use.layer).top(use.index), "' is a result of ",
                LayerTitle(model.layer(use.layer)), ", which is removed; choose another output");
  }
  for (LayerParameter& layer : *model.mutable_layer()) {
    const LayerTraits& traits = TraitsOf(layer.type());
    if (!traits.input && is_source(layer)) {
      notes->push_back(LayerTitle(layer) + " becomes an Input");
      MakeInput(&layer, TopShapes(layer, options.shape));
    } else if (IsSink(traits)) {
      notes->push_back(LayerTitle(layer) + " is removed: it is not part of inference");
      RemoveLayer(&layer);
    }
  }
  return model;
}

NetParameter StripForInference(NetParameter model, const StripOptions& options,
                               TransformNotes* notes) {
  std::vector<BlobUse> wanted;
  model = MakeRunnable(std::move(model), options, notes, &wanted);
  CAFFE_CHECK(!wanted.empty(), NetLabel(model.name()),
              ": no layer computes an output that inference needs; name outputs with -outputs");
  KeepOnly(&model, wanted, notes);
  ClearTraining(&model);
  model = WithoutRemovedLayers(std::move(model));
  const auto net = MakeNet(model);
  for (int i = 0; i < model.layer_size(); ++i) {
    const std::string title = LayerTitle(model.layer(i));
    const LayerTraits& traits = TraitsOf(model.layer(i).type());
    const LayerBase& layer = *net->layers()[i];
    const LayerFacts facts = layer.Facts();
    const bool copies = traits.top_memory == TopMemory::kShared;
    const bool identity = facts.function == ElementFunction{} &&
                          model.layer(i).bottom_size() == 1 && model.layer(i).top_size() == 1 &&
                          layer.types().in == layer.types().out;
    if (!copies && !identity) continue;
    const std::string why = Bypass(&model, i, KeptName::kBottom);
    notes->push_back(title + (why.empty() ? " is removed: it computes nothing in phase TEST"
                                          : " stays: " + why));
  }
  return WithoutRemovedLayers(std::move(model));
}

}  // namespace caffe
