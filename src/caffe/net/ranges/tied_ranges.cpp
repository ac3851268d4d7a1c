// Ranges of the blobs that a Concat joins. If a blob and the joined one have the same range, codes are
// copied, or written into the joined blob at once.
#include <algorithm>
#include <iterator>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {
namespace {

// Where blobs are used: the nodes that write each, and those that read each, once for each bottom.
struct Uses {
  explicit Uses(const Wiring& wiring) : writers(wiring.blobs.size()), readers(wiring.blobs.size()) {
    for (int n = 0; n <= wiring.last_node(); ++n) {
      for (const int id : wiring.nodes[n].top_ids) {
        if (writers[id].empty() || writers[id].back() != n) writers[id].push_back(n);
      }
      for (const int id : wiring.nodes[n].bottom_ids) readers[id].push_back(n);
    }
  }
  // The last node before `reader` that writes the blob; -1 if there is none.
  int WriterOf(int blob, int reader) const {
    const auto after = std::lower_bound(writers[blob].begin(), writers[blob].end(), reader);
    return after == writers[blob].begin() ? -1 : *std::prev(after);
  }
  // Whether the version of the blob that `writer` writes is read more than once.
  bool HasOtherReaders(int blob, int writer) const {
    const auto next = std::upper_bound(writers[blob].begin(), writers[blob].end(), writer);
    const auto first = std::upper_bound(readers[blob].begin(), readers[blob].end(), writer);
    // A node in place reads the version before its own.
    const auto last = next == writers[blob].end()
                          ? readers[blob].end()
                          : std::upper_bound(readers[blob].begin(), readers[blob].end(), *next);
    return last - first > 1;
  }

  std::vector<std::vector<int>> writers, readers;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> Wiring::TiedRanges() const {
  std::vector<std::pair<std::string, std::string>> names;
  const Uses uses(*this);
  for (int n = last_node(); n >= 0; --n) {
    const Node& node = nodes[n];
    if (node.added() || !node.layer->Facts().join) continue;
    const std::string top = RangeName(node, 0);
    for (const int blob : node.bottom_ids) {
      const int w = uses.WriterOf(blob, n);
      if (w < 0 || uses.HasOtherReaders(blob, w)) continue;
      const Node& writer = nodes[w];
      if (writer.added() || writer.layer->Facts().range == LayerFacts::Range::kCarried) continue;
      const auto at = std::find(writer.top_ids.begin(), writer.top_ids.end(), blob);
      names.emplace_back(RangeName(writer, static_cast<int>(at - writer.top_ids.begin())), top);
    }
  }
  return names;
}

}  // namespace caffe
