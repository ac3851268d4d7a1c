#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/transform/transform.hpp"

namespace caffe {

class Net;

// A bottom or a top of a layer, by their indices.
struct BlobUse {
  int layer = -1, index = 0;
  bool operator==(const BlobUse&) const = default;
};

// Which top each bottom reads. A blob that several layers write has one version for each of them.
class Flow {
 public:
  explicit Flow(const NetParameter& net);
  // The top that a bottom reads; layer -1 if there is none.
  BlobUse Source(int layer, int bottom) const { return sources_[layer][bottom]; }
  // The bottoms that read a top, in the order of layers.
  const std::vector<BlobUse>& Readers(int layer, int top) const { return readers_[layer][top]; }
  // Whether a layer between two others, themselves excluded, writes a blob.
  bool Writes(const std::string& blob, int after, int before) const;
  // Whether a layer between two others, themselves excluded, reads or writes a blob.
  bool Uses(const std::string& blob, int after, int before) const;

 private:
  const NetParameter& net_;
  std::vector<std::vector<BlobUse>> sources_;
  std::vector<std::vector<std::vector<BlobUse>>> readers_;
};

// A layer without bottoms and tops is a removed one: indices of layers stay the same within a pass.
inline void RemoveLayer(LayerParameter* layer) {
  layer->clear_bottom();
  layer->clear_top();
}
bool IsRemoved(const LayerParameter& layer);
NetParameter WithoutRemovedLayers(NetParameter model);

// The name of the range of a top: see Wiring::RangeName.
std::string RangeName(const NetParameter& model, int layer, int top);
// Several layers may have one name; the names of their ranges count them. Call this when layers
// were removed: `before` are the UniqueLayerNames that the layers of the model had then.
void RenameRanges(const std::vector<std::string>& removed, const std::vector<std::string>& before,
                  NetParameter* model);

// Which name stays if a layer that copies bottom 0 to its tops is removed.
enum class KeptName { kBottom, kTop };

// Removes a layer whose tops equal its bottom 0: its readers read the bottom. With one top, the
// layer that writes the bottom may write the top instead: always if the top is an output of the
// net, else for KeptName::kTop, or if the readers cannot read the bottom. Returns the reason if the
// layer must stay; then nothing is changed.
std::string Bypass(NetParameter* model, int layer, KeptName kept);

// "conv1 (Convolution)".
std::string LayerTitle(const LayerParameter& layer);

// The net of a model, in phase TEST, with its parameters. Layers have the indices of the model.
// Throws if the parameters do not fit.
std::unique_ptr<Net> MakeNet(const NetParameter& model, Device* device = nullptr);

// The model with Inputs instead of data layers, and without losses, accuracies and other layers
// that have no result for inference. `wanted` gets the outputs: see StripOptions.
NetParameter MakeRunnable(NetParameter model, const StripOptions& options, TransformNotes* notes,
                          std::vector<BlobUse>* wanted);

// Clears all fillers except those of data.
void ClearFillers(LayerParameter* layer);

}  // namespace caffe
