// Ranges of the blobs that a Concat joins. If a blob and the joined one have the same range, codes are
// copied, or written into the joined blob at once.
#include <algorithm>

#include "caffe/layer/layer_facts.hpp"
#include "net_ranges.hpp"

namespace caffe {
namespace {

bool Has(const std::vector<int>& ids, int id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// The last node before `reader` that writes the blob; -1 if there is none.
int WriterOf(const std::vector<Node>& nodes, int blob, int reader) {
  int writer = reader - 1;
  while (writer >= 0 && !Has(nodes[writer].top_ids, blob)) --writer;
  return writer;
}

// Whether another node, or another bottom, reads the version of the blob that `writer` writes.
bool HasOtherReaders(const std::vector<Node>& nodes, int blob, int writer, int reader) {
  for (int n = writer + 1; n < static_cast<int>(nodes.size()); ++n) {
    const std::vector<int>& bottoms = nodes[n].bottom_ids;
    const auto reads = std::count(bottoms.begin(), bottoms.end(), blob);
    if (reads > (n == reader ? 1 : 0)) return true;
    if (Has(nodes[n].top_ids, blob)) return false;
  }
  return false;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> Wiring::TiedRanges() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (int n = last_node(); n >= 0; --n) {
    const Node& node = nodes[n];
    if (node.added() || !node.layer->Facts().join) continue;
    const std::string top = RangeName(node, 0);
    for (const int blob : node.bottom_ids) {
      const int w = WriterOf(nodes, blob, n);
      if (w < 0 || HasOtherReaders(nodes, blob, w, n)) continue;
      const Node& writer = nodes[w];
      if (writer.added() || writer.layer->Facts().range == LayerFacts::Range::kCarried) continue;
      const auto at = std::find(writer.top_ids.begin(), writer.top_ids.end(), blob);
      names.emplace_back(RangeName(writer, static_cast<int>(at - writer.top_ids.begin())), top);
    }
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> NetRanges::TiedNames() const {
  if (observers_.empty()) return {};
  std::vector<std::pair<std::string, std::string>> names = wiring_.TiedRanges();
  std::erase_if(names, [&](const auto& pair) {
    return !observers_.count(pair.first) || !observers_.count(pair.second);
  });
  return names;
}

std::vector<bool> NetRanges::TiedBottoms(int node) const {
  std::vector<bool> tied;
  const Node& join = wiring_.nodes[node];
  if (!join.quantized || !join.layer->Facts().join || nodes_[node].top.empty()) return tied;
  const QuantRange& top = nodes_[node].top[0].range;
  for (size_t b = 0; b < join.bottom.size(); ++b) {
    const QuantRange& bottom = nodes_[node].bottom[b].range;
    tied.push_back(join.bottom[b]->type() == join.top[0]->type() && bottom.observed &&
                   top.observed && bottom.scale == top.scale && bottom.zero == top.zero);
  }
  return tied;
}

}  // namespace caffe
