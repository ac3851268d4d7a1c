#include "range_resolver.hpp"

#include <algorithm>
#include <numeric>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

using Rule = LayerFacts::Range;

// Returns the scale of a layer that carries codes: y = scale x.
double ScaleOf(const Affine& affine) {
  std::vector<double> scale, shift;
  affine.evaluate(&scale, &shift);
  return scale[0];
}

// "<blob>@<layer>" for "<blob>@<layer>#2"; other names as they are.
std::string OfFirstNamesake(const std::string& name) {
  const size_t end = name.find_last_not_of("0123456789");
  const bool numbered = end != std::string::npos && end + 1 < name.size() && name[end] == '#';
  return numbered && name.rfind('@', end) != std::string::npos ? name.substr(0, end) : name;
}

struct Version {
  std::string name;
  Range range;
  double scale = 1;  // of the real values: codes are carried, and their zero point stays
};

class RangeResolver {
 public:
  RangeResolver(const Wiring& wiring, const std::map<std::string, Range>& known, bool placeholders)
      : wiring_(wiring), known_(known), placeholders_(placeholders) {}

  NodeRanges Resolve(const Node& node) {
    NodeRanges ranges;
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      ranges.bottom.push_back(CodesOf(versions_[node.bottom_ids[b]], *node.bottom[b]));
    }
    const LayerFacts facts = node.layer->Facts();
    for (int t = 0; t < static_cast<int>(node.top.size()); ++t) {
      const Version version = VersionOf(node, t, facts);
      ranges.top.push_back(CodesOf(version, *node.top[t]));
      versions_[node.top_ids[t]] = version;
    }
    return ranges;
  }

 private:
  Range Find(const std::string& name) const {
    auto found = known_.find(name);
    // Older files have one range for all layers of one name that change the blob.
    if (found == known_.end()) found = known_.find(OfFirstNamesake(name));
    // The fork has one range for all versions of a blob.
    if (found == known_.end()) found = known_.find(name.substr(0, name.rfind('@')));
    // Observed where the experts computed together.
    if (found == known_.end()) found = known_.find(SharedExpertName(name));
    return found == known_.end() ? Range() : found->second;
  }

  // The version of a blob that a node writes.
  Version VersionOf(const Node& node, int top, const LayerFacts& facts) {
    // Each top of a composite layer is a bottom of its node.
    const int from = node.composite ? top : 0;
    Version version = node.bottom.empty() ? Version() : versions_[node.bottom_ids[from]];
    const bool carries =
        facts.range == Rule::kCarried && !node.bottom.empty() && node.bottom[0]->type().has_range();
    if (node.added() || carries) {
      if (!node.added() && facts.affine) version.scale *= ScaleOf(*facts.affine);
      return version;
    }
    const std::string name = wiring_.RangeName(node, top);
    Range range = node.fixed_ranges ? Range() : Find(name);
    if (!range.known() && facts.bounds && facts.bounds->top == top) {
      range = {facts.bounds->low, facts.bounds->high};
    }
    const bool same =
        facts.range == Rule::kSame || (facts.range == Rule::kTied && HasOneRange(node));
    if (range.known() || !same) version = {"", range};
    version.name = name;
    return version;
  }

  // Whether all bottoms have the same range.
  bool HasOneRange(const Node& node) {
    const Version& first = versions_[node.bottom_ids[0]];
    return std::all_of(node.bottom_ids.begin(), node.bottom_ids.end(), [&](int id) {
      const Version& other = versions_[id];
      return other.range.known() && other.range.low == first.range.low &&
             other.range.high == first.range.high && other.scale == first.scale;
    });
  }

  BlobRange CodesOf(const Version& version, const BlobBase& blob) const {
    BlobRange codes{{}, version.name};
    const Range range = placeholders_ && !version.range.known() ? Range{-1, 1} : version.range;
    if (!blob.type().has_range()) return codes;
    try {
      if (range.known()) codes = {CodeRange(range, blob.type()), version.name};
    } catch (const Error& error) {
      CAFFE_THROW("blob ", version.name, ": ", error.what());
    }
    if (blob.type().is_quantized()) codes.scale *= version.scale;
    return codes;
  }

  const Wiring& wiring_;
  const std::map<std::string, Range>& known_;
  const bool placeholders_;
  std::map<int, Version> versions_;  // the last ones so far, by blob
};

}  // namespace

namespace {

// Blobs of scaled types that have one scale, the largest one: all versions of a blob that is
// changed in place, the blobs of a node that only moves elements, or shares memory, and those of a
// sum, because a chain of sums on the host reads all summands by one table.
class SharedScales {
 public:
  SharedScales(const Wiring& wiring, std::vector<NodeRanges>* ranges)
      : wiring_(wiring), ranges_(*ranges), parents_(wiring.blobs.size()) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  void Unite() {
    const auto scaled = [](const auto& blob) { return blob->type().is_scaled(); };
    if (std::none_of(wiring_.blobs.begin(), wiring_.blobs.end(), scaled)) return;
    for (const Node& node : wiring_.nodes) {
      if (!Moves(node)) continue;
      int first = -1;
      Each(node, [&](int id, BlobRange*) {
        if (first >= 0) parents_[Root(id)] = Root(first);
        first = id;
      });
    }
    std::map<int, BlobRange> largest;
    EachOfAll([&](int id, BlobRange* range) {
      const auto [known, added] = largest.try_emplace(Root(id), *range);
      if (!added && range->observed &&
          (!known->second.observed || range->scale > known->second.scale)) {
        known->second = *range;
      }
    });
    EachOfAll(
        [&](int id, BlobRange* range) { static_cast<QuantRange&>(*range) = largest.at(Root(id)); });
  }

 private:
  static bool Moves(const Node& node) {
    const LayerFacts facts = node.layer->Facts();
    const LayerTraits& traits = TraitsOf(node.layer->type());
    if (traits.converts) return false;
    return node.added() || facts.range == Rule::kCarried || facts.join || facts.sum ||
           !facts.aliases.empty() || traits.moves_elements;
  }
  int Root(int id) {
    while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
    return id;
  }
  template <class Use> void Each(const Node& node, const Use& use) {
    NodeRanges& ranges = ranges_[&node - wiring_.nodes.data()];
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      if (node.bottom[b]->type().is_scaled()) use(node.bottom_ids[b], &ranges.bottom[b]);
    }
    for (size_t t = 0; t < node.top.size(); ++t) {
      if (node.top[t]->type().is_scaled()) use(node.top_ids[t], &ranges.top[t]);
    }
  }
  template <class Use> void EachOfAll(const Use& use) {
    for (const Node& node : wiring_.nodes) Each(node, use);
  }

  const Wiring& wiring_;
  std::vector<NodeRanges>& ranges_;
  std::vector<int> parents_;
};

}  // namespace

std::vector<NodeRanges> ResolveRanges(const Wiring& wiring,
                                      const std::map<std::string, Range>& known,
                                      bool placeholders) {
  RangeResolver resolver(wiring, known, placeholders);
  std::vector<NodeRanges> ranges;
  for (const Node& node : wiring.nodes) ranges.push_back(resolver.Resolve(node));
  SharedScales(wiring, &ranges).Unite();
  return ranges;
}

std::vector<bool> TiedBottoms(const Node& node, const NodeRanges& ranges) {
  std::vector<bool> tied;
  if (!node.quantized || ranges.top.empty() || !node.layer->Facts().join) return tied;
  const BlobRange& top = ranges.top[0];
  for (size_t b = 0; b < node.bottom.size(); ++b) {
    const BlobRange& bottom = ranges.bottom[b];
    tied.push_back(node.bottom[b]->type() == node.top[0]->type() && bottom.observed &&
                   top.observed && bottom.scale == top.scale && bottom.zero == top.zero);
  }
  return tied;
}

}  // namespace caffe
