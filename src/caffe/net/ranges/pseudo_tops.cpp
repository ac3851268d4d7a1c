#include "pseudo_tops.hpp"

#include <algorithm>
#include <set>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {
namespace {

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

class PseudoTops {
 public:
  explicit PseudoTops(const Wiring& wiring) : wiring_(wiring), nodes_(wiring.nodes) {
    for (const Node& node : nodes_) facts_.push_back(node.layer->Facts());
  }

  std::vector<std::vector<bool>> Find() {
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) FindInnerTops(n);
    std::vector<std::vector<bool>> found;
    std::set<int> coded;  // blobs that hold values of codes
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      const Node& node = nodes_[n];
      found.emplace_back(node.top.size(), false);
      for (size_t t = 0; t < node.top_ids.size(); ++t) {
        const int id = node.top_ids[t];
        const size_t from = node.composite ? t : 0;
        const bool from_codes = !node.bottom_ids.empty() && coded.count(node.bottom_ids[from]) > 0;
        const bool label = Has(traits(n).float_tops, static_cast<int>(t));
        const bool rounds = !node.added() && !label && node.top[t]->type().is_float() &&
                            (Rounds(n) || (!(Copies(n) && from_codes) && IsReadAsCodes(n, id)));
        const bool inner = inner_.count({n, id}) > 0;
        found[n][t] = rounds && !inner;
        if (rounds || (Copies(n) && from_codes)) {
          coded.insert(id);
        } else {
          coded.erase(id);
        }
      }
    }
    return found;
  }

 private:
  const LayerTraits& traits(int n) const { return TraitsOf(nodes_[n].layer->type()); }

  bool HasCodes(int n) const {
    const auto& types = traits(n).types;
    const LayerParameter& parameter = nodes_[n].layer->layer_param();
    return std::find(types.begin(), types.end(), kQuant8) != types.end() &&
           (!traits(n).quantizes || traits(n).quantizes(parameter));
  }

  // The tops have the values of bottom 0.
  bool Copies(int n) const {
    using Range = LayerFacts::Range;
    return nodes_[n].added() || traits(n).converts || traits(n).moves_elements ||
           facts_[n].range == Range::kCarried || facts_[n].range == Range::kSame;
  }

  // Among the nested layers of one with fixed ranges, these are the products.
  bool ReadsCodes(int n) const {
    const bool computes = !nodes_[n].fixed_ranges || facts_[n].weighted;
    return computes && HasCodes(n) && !traits(n).data && !Copies(n);
  }
  bool Rounds(int n) const {
    return ReadsCodes(n) && !nodes_[n].fixed_ranges && !traits(n).float_ends;
  }

  // Whether a layer with quantized types reads the version of a blob that node n writes.
  bool IsReadAsCodes(int n, int id) const {
    for (int m = n + 1; m < static_cast<int>(nodes_.size()); ++m) {
      for (size_t b = 0; b < nodes_[m].bottom_ids.size(); ++b) {
        if (nodes_[m].bottom_ids[b] != id) continue;
        if (nodes_[m].added()) {
          for (const int top : nodes_[m].top_ids) {
            if (IsReadAsCodes(m, top)) return true;
          }
        } else if (ReadsCodes(m) && !Has(traits(m).float_bottoms, static_cast<int>(b))) {
          return true;
        }
      }
      if (Has(nodes_[m].top_ids, id)) return false;
    }
    return false;
  }

  void FindInnerTops(int first) {
    const LayerFacts::Stages* const stages = facts_[first].stages();
    if (!stages || nodes_[first].top.size() != 1) return;
    int last = first;
    for (bool ends = false; !ends;) {
      const int id = nodes_[last].top_ids[0], next = wiring_.OnlyReader(last, id);
      if (next < 0 || nodes_[next].added() || nodes_[next].bottom.size() != 1 ||
          nodes_[next].top.size() != 1) {
        return;
      }
      const LayerFacts& facts = facts_[next];
      const bool maps = facts.affine || facts.normalized || facts.channel_scale;
      const auto& function = facts.function;
      ends = function && function->linear() && function->kind != ElementFunction::Kind::kNone;
      if (!(maps && stages->folds) && !(ends && stages->activates)) return;
      inner_.insert({last, id});
      last = next;
    }
  }

  const Wiring& wiring_;
  const std::vector<Node>& nodes_;
  std::vector<LayerFacts> facts_;
  std::set<std::pair<int, int>> inner_;  // node and blob
};

}  // namespace

std::vector<std::vector<bool>> FindPseudoTops(const Wiring& wiring) {
  return PseudoTops(wiring).Find();
}

}  // namespace caffe
