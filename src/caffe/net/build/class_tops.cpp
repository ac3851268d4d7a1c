#include "class_tops.hpp"

#include <map>
#include <optional>
#include <vector>

#include "caffe/layer/class_labels.hpp"
#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {
namespace {

// How layers read a blob.
struct Use {
  bool classes = false, other = false;
};

}  // namespace

void FindClassTops(const Wiring& wiring) {
  std::map<int, Use> uses;  // of the current versions of the blobs, from the last node to the first
  for (size_t n = wiring.nodes.size(); n-- > 0;) {
    const Node& node = wiring.nodes[n];
    Use any;
    std::vector<int> class_tops;
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      const Use use = uses[node.top_ids[t]];
      any.classes |= use.classes;
      any.other |= use.other;
      if (use.classes && !use.other) class_tops.push_back(static_cast<int>(t));
    }
    auto* source = dynamic_cast<ClassSource*>(node.layer.get());
    if (source && !class_tops.empty()) source->SetClassTops(class_tops, node.top);
    for (const int id : node.top_ids) uses.erase(id);
    const auto* reader = dynamic_cast<const HasClassScores*>(node.layer.get());
    const auto scores = reader ? reader->class_scores() : std::nullopt;
    const int class_bottom = scores && scores->labels ? 1 : -1;
    const LayerTraits traits = LayerRegistry::Get().Traits(node.layer->type());
    for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
      Use& use = uses[node.bottom_ids[b]];
      if (static_cast<int>(b) == class_bottom) {
        use.classes = true;
      } else if (traits.moves_elements || traits.converts) {
        use.classes |= any.classes;
        use.other |= any.other;
      } else {
        use.other = true;
      }
    }
  }
}

}  // namespace caffe
