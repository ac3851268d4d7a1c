#include <map>
#include <set>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/layer/type_of_top.hpp"

namespace caffe {
namespace {

// The content of a blob from one writer of its name to the next. Versions with one `content` are
// views of the same memory: a blob and the tops of Flatten or Split on it.
struct Version {
  int layer, top;
  std::string blob;
  DataType type;
  int content;
  int readers = 0;
  int last_reader = -1;  // layer
};

bool Contains(const std::vector<int>& list, int value) {
  for (int entry : list) {
    if (entry == value) return true;
  }
  return false;
}

constexpr char kWouldCopy[] = "its backward pass reads its bottom";

std::string Quoted(const LayerParameter& layer) { return "layer '" + layer.name() + "'"; }

class Finder {
 public:
  // `copies`: find layers that would copy their bottom, too. `separated`: the net is that after the
  // pass, so that only backward passes can have conflicts.
  Finder(const TypedNet& net, bool gradients, bool copies, bool separated = false)
      : net_(net), gradients_(gradients), copies_(copies), separated_(separated) {}

  std::vector<InPlaceConflict> Find() {
    Number();
    for (int i = 0; i < count(); ++i) Visit(i);
    return std::move(conflicts_);
  }

 private:
  int count() const { return static_cast<int>(net_.layers.size()); }
  const LayerParameter& Layer(int index) const { return net_.layers[index].layer; }

  // The types that a layer reads from a bottom and writes to a top, before any cast.
  static DataType BottomType(const TypedLayer& typed, int bottom) {
    const LayerTraits& traits = TraitsOf(typed.layer.type());
    if (Contains(traits.float_bottoms, bottom)) return kFloat;
    return traits.converts ? typed.types.in : typed.types.compute;
  }
  static DataType TopType(const TypedLayer& typed, int top) {
    const LayerTraits& traits = TraitsOf(typed.layer.type());
    const DataType type = typed.tops[top];
    if (traits.converts || (type != typed.types.out && !traits.loss)) return type;
    return TypeOfTop(traits, top, typed.types.compute);
  }
  // Whether the layer reads the version without a cast.
  static bool ReadsDirectly(const TypedLayer& typed, int bottom, const Version& version) {
    if (typed.reads_any_float && ReadsAsItIs(version.type)) return true;
    return version.type == BottomType(typed, bottom);
  }

  // Numbers the versions and counts their readers.
  void Number() {
    std::map<std::string, int> present;
    bottoms_.resize(count());
    tops_.resize(count());
    for (int i = 0; i < count(); ++i) {
      const LayerParameter& layer = Layer(i);
      for (const std::string& bottom : layer.bottom()) {
        const auto found = present.find(bottom);
        bottoms_[i].push_back(found == present.end() ? -1 : found->second);
        if (found == present.end()) continue;  // InsertSplits reports the error
        ++versions_[found->second].readers;
        versions_[found->second].last_reader = i;
      }
      for (int t = 0; t < layer.top_size(); ++t) {
        tops_[i].push_back(static_cast<int>(versions_.size()));
        present[layer.top(t)] = tops_[i][t];
        versions_.push_back({i, t, layer.top(t), net_.layers[i].tops[t], -1});
      }
    }
    for (const auto& [name, version] : present) final_.insert(version);
  }

  void Visit(int index) {
    const TypedLayer& typed = net_.layers[index];
    const LayerParameter& layer = typed.layer;
    const LayerTraits& traits = TraitsOf(layer.type());
    const BackwardReads reads = BackwardReadsOf(layer);
    std::vector<bool> in_place(layer.top_size(), false);
    for (int t = 0; t < layer.top_size(); ++t) {
      Version& version = versions_[tops_[index][t]];
      SetContent(tops_[index][t], contents_++);
      if (IsInPlace(layer, t) && bottoms_[index][t] >= 0) {
        // Net reports the error for such a layer.
        if (!traits.in_place) continue;
        std::string reason = Conflict(index, t);
        if (reason.empty() && copies_ && t == 0 && Copies(index)) {
          reason = kWouldCopy;
        }
        in_place[t] = reason.empty();
        if (in_place[t]) CarrySigns(versions_[bottoms_[index][t]].content, version.content);
        if (!in_place[t]) conflicts_.push_back({index, t, reason, reader_});
      } else if (SharesBottomMemory(layer) && layer.bottom_size() > 0 && bottoms_[index][0] >= 0) {
        const Version& bottom = versions_[bottoms_[index][0]];
        if (bottom.type == BottomType(typed, 0) && TopType(typed, t) == version.type) {
          SetContent(tops_[index][t], bottom.content);
        }
      }
    }
    // If a bottom was overwritten in place, Backward reads the top instead.
    for (int b = 0; b < layer.bottom_size(); ++b) {
      if (bottoms_[index][b] < 0 || !reads.Bottom(b)) continue;
      if (b < layer.top_size() && in_place[b]) {
        if (!(b == 0 && reads.copies_in_place)) Need(index, tops_[index][b], reads.only_signs);
      } else if (ReadsDirectly(typed, b, versions_[bottoms_[index][b]])) {
        Need(index, bottoms_[index][b], reads.only_signs);
      }
    }
    for (int t = 0; t < layer.top_size(); ++t) {
      if (reads.Top(t) && TopType(typed, t) == versions_[tops_[index][t]].type) {
        Need(index, tops_[index][t], reads.only_signs);
      }
    }
  }

  void SetContent(int version, int content) {
    const auto before = with_content_.find(versions_[version].content);
    if (before != with_content_.end()) before->second.erase(version);
    versions_[version].content = content;
    with_content_[content].insert(version);
  }

  void Need(int layer, int version, bool only_signs) {
    readers_[versions_[version].content].push_back({layer, version, only_signs});
  }
  // A layer that reads only the signs of an overwritten blob can read them from the new content.
  void CarrySigns(int from, int to) {
    const auto found = readers_.find(from);
    if (found == readers_.end()) return;
    const std::vector<Reader> readers = found->second;
    for (const Reader& reader : readers) readers_[to].push_back(reader);
  }

  // The reason why a layer cannot overwrite its bottom; empty if it can.
  std::string Conflict(int index, int t) {
    reader_ = -1;
    const std::string reason = separated_ ? "" : ForwardConflict(index, t);
    return reason.empty() && gradients_ ? BackwardConflict(index, t) : reason;
  }

  std::string ForwardConflict(int index, int t) {
    const TypedLayer& typed = net_.layers[index];
    const Version& old = versions_[bottoms_[index][t]];
    const Version& own = versions_[tops_[index][t]];
    if (!ReadsDirectly(typed, t, old)) {
      return Concat("it computes in ", BottomType(typed, t).name(), ", but blob ", old.blob, " is ",
                    old.type.name());
    }
    if (!(typed.reads_any_float && ReadsAsItIs(own.type)) && TopType(typed, t) != own.type) {
      return Concat("it computes in ", TopType(typed, t).name(), ", but its top is ",
                    own.type.name());
    }
    const std::set<int>& sharing = with_content_[old.content];
    for (const int v : sharing) {
      const Version& other = versions_[v];
      const LayerParameter& maker = Layer(other.layer);
      if (TraitsOf(maker.type()).top_memory == TopMemory::kParameter) {
        return Concat("blob ", other.blob, " is the parameter of ", Quoted(maker));
      }
      if (TraitsOf(maker.type()).input) {
        return Concat("blob ", other.blob, " is an input, which keeps what the caller wrote");
      }
    }
    if (old.readers > 1) return "other layers read blob " + old.blob + ", too";
    for (const int v : sharing) {
      const Version& other = versions_[v];
      if (&other == &old) continue;
      if (other.last_reader >= index) {
        return Concat(Quoted(Layer(other.last_reader)), " reads blob ", other.blob,
                      ", which shares the memory of blob ", old.blob);
      }
      if (final_.count(v)) {
        return Concat("blob ", other.blob, " shares the memory of blob ", old.blob);
      }
    }
    return "";
  }

  std::string BackwardConflict(int index, int t) {
    const auto found = readers_.find(versions_[bottoms_[index][t]].content);
    if (found == readers_.end()) return "";
    const bool keeps_signs = TraitsOf(Layer(index).type()).keeps_signs;
    for (const Reader& reader : found->second) {
      if (reader.only_signs && keeps_signs) continue;
      reader_ = reader.layer;
      return Concat(Quoted(Layer(reader.layer)), " reads blob ", versions_[reader.version].blob,
                    " in its backward pass");
    }
    return "";
  }

  // Whether the layer would keep a copy of its bottom if it worked in place. A layer on the top of
  // a data layer stays in place: without a gradient of its bottom the layer may need no copy.
  bool Copies(int index) const {
    const LayerParameter& layer = Layer(index);
    const BackwardReads reads = BackwardReadsOf(layer);
    if (!reads.copies_in_place || !reads.Bottom(0)) return false;
    const bool fixed = layer.param_size() > 0 && layer.param(0).lr_mult() == 0;
    if (reads.for_parameter && fixed) return false;
    return !TraitsOf(Layer(versions_[bottoms_[index][0]].layer).type()).data;
  }

  const TypedNet& net_;
  const bool gradients_, copies_, separated_;
  std::vector<Version> versions_;
  std::vector<std::vector<int>> bottoms_, tops_;  // versions
  std::set<int> final_;                           // the last versions of their blobs
  int contents_ = 0;
  std::map<int, std::set<int>> with_content_;  // content -> versions
  struct Reader {
    int layer, version;
    bool only_signs;
  };
  std::map<int, std::vector<Reader>> readers_;  // content -> its readers in backward passes
  std::vector<InPlaceConflict> conflicts_;
  int reader_ = -1;  // the reader of the last conflict
};

}  // namespace

std::vector<InPlaceConflict> FindInPlaceConflicts(const TypedNet& net, bool gradients) {
  return Finder(net, gradients, false).Find();
}

std::vector<InPlaceConflict> FindGradientConflicts(const TypedNet& net) {
  return Finder(net, true, false, true).Find();
}

TypedNet SeparateInPlace(const TypedNet& net) {
  std::set<std::pair<int, int>> separate;
  const bool gradients = net.keeps_gradients;
  for (const InPlaceConflict& conflict : Finder(net, gradients, gradients).Find()) {
    separate.insert({conflict.layer, conflict.top});
    const LayerParameter& layer = net.layers[conflict.layer].layer;
    const std::string line =
        Concat(layer.name(), " (", layer.type(), "): its top ", layer.top(conflict.top),
               " gets separate memory: ", conflict.reason);
    conflict.reason == kWouldCopy ? log::Debug(line) : log::Info(line);
  }
  TypedNet out = net;
  if (separate.empty()) return out;
  std::set<std::string> names;
  for (const TypedLayer& typed : net.layers) {
    names.insert(typed.layer.top().begin(), typed.layer.top().end());
  }
  const auto fresh = [&names](const std::string& wanted) {
    std::string name = wanted;
    for (int n = 2; !names.insert(name).second; ++n) name = Concat(wanted, "_", n);
    return name;
  };
  // The current memory of a blob: where its name is mentioned, and the layer that wrote it last.
  struct Memory {
    std::vector<std::string*> mentions;
    std::string writer;
  };
  std::map<std::string, Memory> memories;
  for (int i = 0; i < static_cast<int>(out.layers.size()); ++i) {
    LayerParameter& layer = out.layers[i].layer;
    for (std::string& bottom : *layer.mutable_bottom())
      memories[bottom].mentions.push_back(&bottom);
    for (int t = 0; t < layer.top_size(); ++t) {
      const std::string& blob = net.layers[i].layer.top(t);
      Memory& memory = memories[blob];
      if (separate.count({i, t})) {
        const std::string name = fresh(blob + "@" + memory.writer);
        for (std::string* mention : memory.mentions) *mention = name;
        memory.mentions.clear();
      }
      memory.mentions.push_back(layer.mutable_top(t));
      memory.writer = layer.name();
    }
  }
  return out;
}

}  // namespace caffe
