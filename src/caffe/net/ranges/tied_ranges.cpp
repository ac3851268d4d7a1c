// Ranges of the blobs that a Concat joins. If a blob and the joined one have the same range, codes are
// copied, or written into the joined blob at once.
#include <algorithm>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {
namespace {

bool Has(const std::vector<int>& ids, int id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

int Wiring::OnlyReader(int writer, int blob) const {
  int reader = -1;
  for (int n = writer + 1; n <= last_node(); ++n) {
    for (const int bottom : nodes[n].bottom_ids) {
      if (bottom != blob) continue;
      if (reader >= 0) return -1;
      reader = n;
    }
    // A node in place reads the version before its own.
    if (Has(nodes[n].top_ids, blob)) break;
  }
  return reader;
}

std::vector<std::pair<std::string, std::string>> Wiring::TiedRanges() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (int n = last_node(); n >= 0; --n) {
    const Node& node = nodes[n];
    if (node.added() || !node.layer->Facts().join) continue;
    const std::string top = RangeName(node, 0);
    for (const int blob : node.bottom_ids) {
      int w = n - 1;
      while (w >= 0 && !Has(nodes[w].top_ids, blob)) --w;
      if (w < 0 || OnlyReader(w, blob) != n) continue;
      const Node& writer = nodes[w];
      if (writer.added() || writer.layer->Facts().range == LayerFacts::Range::kCarried) continue;
      const auto at = std::find(writer.top_ids.begin(), writer.top_ids.end(), blob);
      names.emplace_back(RangeName(writer, static_cast<int>(at - writer.top_ids.begin())), top);
    }
  }
  return names;
}

}  // namespace caffe
