#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/layer/folded_weights.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "maps.hpp"

namespace caffe {
namespace {

// The parameters that several layers share: by memory, and by name.
class SharedParameters {
 public:
  SharedParameters(const NetParameter& model, const Net& net) {
    for (int i = 0; i < model.layer_size(); ++i) {
      for (const auto& blob : net.layers()[i]->blobs()) ++blobs_[blob.get()];
      for (const ParamSpec& spec : model.layer(i).param()) {
        if (!spec.name().empty()) ++names_[spec.name()];
      }
    }
  }
  bool Has(const LayerParameter& parameter, const LayerBase& layer) const {
    const auto& specs = parameter.param();
    return std::any_of(layer.blobs().begin(), layer.blobs().end(),
                       [&](const auto& blob) { return blobs_.at(blob.get()) > 1; }) ||
           std::any_of(specs.begin(), specs.end(), [&](const ParamSpec& spec) {
             return !spec.name().empty() && names_.at(spec.name()) > 1;
           });
  }

 private:
  std::map<const BlobBase*, int> blobs_;
  std::map<std::string, int> names_;
};

// A layer with weights, and the maps after it.
struct Fold {
  std::vector<Affine> maps;
  std::string names;
};

void SetBiasTerm(LayerParameter* layer) {
  if (layer->has_inner_product_param()) {
    layer->mutable_inner_product_param()->set_bias_term(true);
  } else {
    layer->mutable_convolution_param()->set_bias_term(true);
  }
}

void RemoveRange(const std::string& name, NetParameter* model) {
  auto* entries = model->mutable_quantizer();
  for (int i = entries->size() - 1; i >= 0; --i) {
    if (entries->Get(i).name() == name) entries->DeleteSubrange(i, 1);
  }
}

// A range gets another name, and replaces the one that had it.
void MoveRange(const std::string& from, const std::string& to, NetParameter* model) {
  if (from == to) return;
  RemoveRange(to, model);
  for (QuantizerParameter& entry : *model->mutable_quantizer()) {
    if (entry.name() == from) entry.set_name(to);
  }
}

}  // namespace

MapValues Evaluate(const Affine& map) {
  MapValues values;
  map.evaluate(&values.scale, &values.shift);
  return values;
}

MapValues Join(const MapValues& first, const MapValues& second) {
  const size_t count = std::max(first.scale.size(), second.scale.size());
  MapValues joined;
  for (size_t c = 0; c < count; ++c) {
    const size_t f = first.scale.size() == 1 ? 0 : c, s = second.scale.size() == 1 ? 0 : c;
    joined.scale.push_back(first.scale[f] * second.scale[s]);
    joined.shift.push_back(first.shift[f] * second.scale[s] + second.shift[s]);
  }
  return joined;
}

bool FitsFloat(const MapValues& map) {
  const auto fits = [](double value) {
    return std::abs(value) <= std::numeric_limits<float>::max();
  };
  return std::all_of(map.scale.begin(), map.scale.end(), fits) &&
         std::all_of(map.shift.begin(), map.shift.end(), fits);
}

void SetValues(const std::vector<double>& values, const std::vector<int64_t>& shape,
               BlobProto* blob) {
  blob->Clear();
  blob->mutable_shape();
  for (const int64_t extent : shape) blob->mutable_shape()->add_dim(extent);
  for (const double value : values) blob->add_data(static_cast<float>(value));
}

void FoldIntoWeights(NetParameter* model, const Net& net, MapKind kind, TransformNotes* notes) {
  const SharedParameters shared(*model, net);
  std::map<int, Fold> folds;  // by the index of the layer with weights
  for (int i = 0; i < model->layer_size(); ++i) {
    const LayerParameter& layer = model->layer(i);
    if (IsRemoved(layer) || layer.bottom_size() != 1 || layer.top_size() != 1) continue;
    const LayerFacts facts = net.layers()[i]->Facts();
    if (!facts.affine) continue;
    const Affine& map = *facts.affine;
    if (map.sources.empty() != (kind == MapKind::kConstant)) continue;
    const std::string title = LayerTitle(layer);
    const auto keep = [&](const auto&... why) {
      if (kind == MapKind::kLearned) notes->push_back(Concat(title, " is not folded: ", why...));
    };
    const Flow flow(*model);
    const BlobUse source = flow.Source(i, 0);
    const LayerFacts before = source.layer < 0 ? LayerFacts() : net.layers()[source.layer]->Facts();
    if (!before.weighted) {
      keep("the layer before it has no weights");
      continue;
    }
    const LayerParameter& producer = model->layer(source.layer);
    const LayerBase& weights = *net.layers()[source.layer];
    const LayerFacts::Weighted& weighted = *before.weighted;
    if (map.channels != 1 && (map.channels != weighted.channels || map.axis != weighted.axis)) {
      keep("its channels are not the outputs of ", producer.name());
    } else if (flow.Readers(source.layer, source.index).size() != 1) {
      keep("other layers read blob ", layer.bottom(0), " of ", producer.name(), ", too");
    } else if (producer.bottom_size() != 1 || producer.top_size() != 1) {
      keep(producer.name(), " has several bottoms and tops");
    } else if (shared.Has(producer, weights)) {
      keep("other layers share the parameters of ", producer.name());
    } else if (!weights.types().compute.is_float() || !weights.types().out.is_float() ||
               net.layers()[i]->types() != TypeTriple::Equal(weights.types().out)) {
      keep("its types are ", net.layers()[i]->types().name(), ", those of ", producer.name(), " ",
           weights.types().name());
    } else if (layer.loss_weight_size() > 0 || producer.loss_weight_size() > 0) {
      keep("it has a loss weight");
    } else if (!FitsFloat(Evaluate(map))) {
      keep("its scales or shifts are not finite");
    } else {
      const std::string name = layer.name(), range = RangeName(*model, i, 0);
      const std::string why = Bypass(model, i, KeptName::kTop);
      if (!why.empty()) {
        keep(why);
        continue;
      }
      // The layer with weights now writes what the map wrote.
      MoveRange(range, RangeName(*model, source.layer, source.index), model);
      Fold& fold = folds[source.layer];
      fold.maps.push_back(map);
      fold.names += (fold.names.empty() ? "" : ", ") + name;
    }
  }
  for (auto& [index, fold] : folds) {
    const LayerBase& layer = *net.layers()[index];
    LayerParameter* parameter = model->mutable_layer(index);
    const LayerFacts facts = layer.Facts();
    const LayerFacts::Weighted& weighted = *facts.weighted;
    const BlobBase* bias = weighted.has_bias ? layer.blobs()[1].get() : nullptr;
    FoldedWeights folded(layer.blobs()[0].get(), bias,
                         {weighted.channels, weighted.group, weighted.outer}, fold.maps);
    folded.Refresh();
    const std::vector<double> shift = folded.bias().DataAsDouble();
    const bool has_shift =
        bias || std::any_of(shift.begin(), shift.end(), [](double value) { return value != 0; });
    parameter->mutable_blobs(0)->Clear();
    folded.weights().ToProto(parameter->mutable_blobs(0));
    if (has_shift) {
      // The shape of an old file may have four axes.
      const std::vector<int64_t> shape = bias ? bias->shape() : Shape{weighted.channels};
      if (!bias) parameter->add_blobs();
      SetBiasTerm(parameter);
      parameter->mutable_blobs(1)->Clear();
      folded.bias().ToProto(parameter->mutable_blobs(1));
      BlobShape* stored = parameter->mutable_blobs(1)->mutable_shape();
      stored->clear_dim();
      for (const int64_t extent : shape) stored->add_dim(extent);
    }
    // The weights have changed.
    RemoveRange(ParameterQuantizer(UniqueLayerNames(*model)[index], 0), model);
    notes->push_back(Concat(fold.names, fold.maps.size() == 1 ? " is" : " are", " folded into ",
                            LayerTitle(*parameter)));
  }
}

NetParameter FoldChannelMaps(NetParameter model, TransformNotes* notes) {
  const auto net = MakeNet(model);
  FoldIntoWeights(&model, *net, MapKind::kLearned, notes);
  return WithoutRemovedLayers(std::move(model));
}

}  // namespace caffe
