// Ranges of the blobs that a Concat joins. If a blob and the joined one have the same range, codes
// are copied, or written into the joined blob at once.
#include <algorithm>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {
int Wiring::OnlyReader(int writer, int blob) const {
  int reader = -1;
  for (int n = writer + 1; n <= last_node(); ++n) {
    const std::vector<int>&bottoms = nodes[n].bottom_ids, &tops = nodes[n].top_ids;
    const auto reads = std::count(bottoms.begin(), bottoms.end(), blob);
    if (reads > 1 || (reads == 1 && reader >= 0)) return -1;
    if (reads == 1) reader = n;
    // A node in place reads the version before its own.
    if (std::count(tops.begin(), tops.end(), blob) > 0) break;
  }
  return reader;
}

std::vector<std::pair<std::string, std::string>> Wiring::TiedRanges() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (int n = last_node(); n >= 0; --n) {
    const Node& node = nodes[n];
    if (node.added() || !node.layer->Facts().join) continue;
    for (const int blob : node.bottom_ids) {
      for (int w = n - 1; w >= 0; --w) {
        const Node& writer = nodes[w];
        const auto top = std::find(writer.top_ids.begin(), writer.top_ids.end(), blob);
        if (top == writer.top_ids.end()) continue;
        if (OnlyReader(w, blob) == n && !writer.added() &&
            writer.layer->Facts().range != LayerFacts::Range::kCarried) {
          names.emplace_back(range_names[w][top - writer.top_ids.begin()], range_names[n][0]);
        }
        break;
      }
    }
  }
  return names;
}

}  // namespace caffe
