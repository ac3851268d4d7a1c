// The pass duplicates: layers that compute the same become one, and equal parameters are shared.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

// Parameters with fewer elements are not worth a name.
constexpr int64_t kLarge = 4096;

// The bytes of a parameter with its type and shape: two are equal bit for bit, or not at all.
std::string Content(const BlobBase& blob) {
  std::string content = Concat(blob.type().name(), " ", blob.shape_string(), " ");
  const auto* const bytes = static_cast<const char*>(blob.host_data());
  content.append(bytes, static_cast<size_t>(blob.count()) * blob.type().bytes());
  return content;
}

// Equal contents have equal numbers.
class Numbers {
 public:
  int Of(const std::string& content) {
    return known_.try_emplace(content, static_cast<int>(known_.size())).first->second;
  }

 private:
  std::map<std::string, int> known_;
};

// Which layers compute what an earlier one computes.
class Duplicates {
 public:
  Duplicates(const NetParameter& model, const Net& net)
      : model_(model), net_(net), flow_(model), first_(model.layer_size(), -1) {
    Numbers parameters;
    for (int i = 0; i < model.layer_size(); ++i) {
      LayerParameter settings = model.layer(i);
      for (auto* field : {settings.mutable_bottom(), settings.mutable_top()}) field->Clear();
      settings.clear_name();
      settings.clear_blobs();
      settings.clear_param();  // rates of training, and names of what is compared here
      ClearFillers(&settings);
      std::string key = settings.SerializeAsString();
      for (const auto& blob : net.layers()[i]->blobs()) {
        key += Concat(" ", parameters.Of(Content(*blob)));
      }
      keys_.push_back(key + Concat(" ", net.layers()[i]->types().name()));
    }
  }

  // The layer that replaces this one; -1: it stays.
  int first(int layer) const { return first_[layer]; }

  // Finds them. Layers whose readers could not read the other blob stay; so does what follows.
  void Find(TransformNotes* notes) {
    do {
      Number();
    } while (!AllCanBeRead(notes));
  }

  // The top that a bottom reads when duplicates are gone.
  BlobUse Source(int layer, int bottom) const {
    BlobUse source = flow_.Source(layer, bottom);
    if (source.layer >= 0 && first_[source.layer] >= 0) source.layer = first_[source.layer];
    return source;
  }

 private:
  bool CanMerge(int i) const {
    const LayerParameter& layer = model_.layer(i);
    const LayerTraits& traits = TraitsOf(layer.type());
    const LayerFacts facts = net_.layers()[i]->Facts();
    if (stays_.count(i) > 0 || facts.host || traits.loss || traits.input || layer.top_size() == 0 ||
        layer.loss_weight_size() > 0) {
      return false;
    }
    if (layer.bottom_size() == 0) return traits.top_memory == TopMemory::kParameter;
    return facts.replayable;
  }

  void Number() {
    std::map<std::string, int> known;
    for (int i = 0; i < model_.layer_size(); ++i) {
      first_[i] = -1;
      if (!CanMerge(i)) continue;
      std::string key = keys_[i];
      bool whole = true;
      for (int b = 0; b < model_.layer(i).bottom_size(); ++b) {
        const BlobUse source = Source(i, b);
        whole = whole && source.layer >= 0;
        key += Concat(" <", source.layer, ":", source.index);
      }
      if (!whole) continue;
      const auto [found, added] =
          known.try_emplace(key + Concat(" ", model_.layer(i).top_size()), i);
      if (!added) first_[i] = found->second;
    }
  }

  // Whether outputs keep their names, and readers find what they read under its name.
  bool AllCanBeRead(TransformNotes* notes) {
    for (int i = 0; i < model_.layer_size(); ++i) {
      if (first_[i] < 0) continue;
      const std::string why = WhyNot(i);
      if (why.empty()) continue;
      notes->push_back(Concat(LayerTitle(model_.layer(i)), " computes what ",
                              model_.layer(first_[i]).name(), " computes, but stays: ", why));
      stays_.insert(i);
      return false;
    }
    return true;
  }

  // The reason why a duplicate must stay; empty: it can be removed.
  std::string WhyNot(int i) const {
    for (int t = 0; t < model_.layer(i).top_size(); ++t) {
      if (flow_.Readers(i, t).empty()) return "blob " + model_.layer(i).top(t) + " is an output";
      const std::string& name = model_.layer(first_[i]).top(t);
      // A blob that another layer reads would not be an output any more.
      if (flow_.Readers(first_[i], t).empty()) return "blob " + name + " is an output";
      for (const BlobUse& reader : flow_.Readers(i, t)) {
        if (first_[reader.layer] >= 0) continue;
        for (int k = first_[i] + 1; k < reader.layer; ++k) {
          const auto& tops = model_.layer(k).top();
          if (first_[k] < 0 && std::count(tops.begin(), tops.end(), name) > 0) {
            return Concat("blob ", name, " changes before ", model_.layer(reader.layer).name(),
                          " reads it");
          }
        }
      }
    }
    return "";
  }

  const NetParameter& model_;
  const Net& net_;
  const Flow flow_;
  std::vector<int> first_;
  std::vector<std::string> keys_;
  std::set<int> stays_;
};

// Gives equal parameters of several layers a name that they share.
void ShareParameters(NetParameter* model, TransformNotes* notes) {
  const auto net = MakeNet(*model);
  std::map<std::string, std::vector<std::pair<int, int>>> equal;
  for (int i = 0; i < model->layer_size(); ++i) {
    const auto& blobs = net->layers()[i]->blobs();
    // Layers with nets of their own have no names for their parameters.
    const LayerFacts facts = net->layers()[i]->Facts();
    if (!facts.weighted && !facts.channel_scale) continue;
    for (int b = 0; b < static_cast<int>(blobs.size()); ++b) {
      if (blobs[b]->count() >= kLarge) equal[Content(*blobs[b])].emplace_back(i, b);
    }
  }
  for (const auto& [content, uses] : equal) {
    const auto spec = [&](const std::pair<int, int>& use) -> ParamSpec* {
      LayerParameter* layer = model->mutable_layer(use.first);
      while (layer->param_size() <= use.second) layer->add_param();
      return layer->mutable_param(use.second);
    };
    std::vector<std::pair<int, int>> unnamed;
    for (const auto& use : uses) {
      const auto& specs = model->layer(use.first).param();
      if (use.second >= specs.size() || specs[use.second].name().empty()) unnamed.push_back(use);
    }
    if (unnamed.size() < 2) continue;
    const std::string& owner = model->layer(unnamed[0].first).name();
    const std::string name = Concat(owner, "_blobs_", unnamed[0].second, "_shared");
    std::string sharing;
    for (const auto& use : unnamed) {
      spec(use)->set_name(name);
      if (use != unnamed[0])
        sharing += (sharing.empty() ? "" : ", ") + model->layer(use.first).name();
    }
    notes->push_back(Concat(sharing, " shares parameter ", unnamed[0].second, " of ", owner,
                            ": their values are equal"));
  }
}

}  // namespace

NetParameter MergeDuplicates(NetParameter model, TransformNotes* notes) {
  {
    const auto net = MakeNet(model);
    Duplicates duplicates(model, *net);
    duplicates.Find(notes);
    std::vector<std::vector<std::string>> bottoms(model.layer_size());
    for (int i = 0; i < model.layer_size(); ++i) {
      for (int b = 0; b < model.layer(i).bottom_size(); ++b) {
        const BlobUse source = duplicates.Source(i, b);
        bottoms[i].push_back(source.layer < 0 ? model.layer(i).bottom(b)
                                              : model.layer(source.layer).top(source.index));
      }
    }
    for (int i = 0; i < model.layer_size(); ++i) {
      LayerParameter* layer = model.mutable_layer(i);
      if (duplicates.first(i) >= 0) {
        notes->push_back(Concat(LayerTitle(*layer), " is removed: ",
                                model.layer(duplicates.first(i)).name(), " computes the same"));
        RemoveLayer(layer);
        continue;
      }
      for (size_t b = 0; b < bottoms[i].size(); ++b) {
        layer->set_bottom(static_cast<int>(b), bottoms[i][b]);
      }
    }
  }
  model = WithoutRemovedLayers(std::move(model));
  ShareParameters(&model, notes);
  if (notes->empty()) notes->push_back(Concat("no layers and no large parameters are equal"));
  return model;
}

}  // namespace caffe
