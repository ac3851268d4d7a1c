#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/layer.hpp"

namespace caffe {

class NetParameter;
class Workspace;

// A layer with its blobs. Layers that the passes of graph/ added (splits, casts) are nodes, too.
struct Node {
  std::shared_ptr<LayerBase> layer;
  std::vector<int> bottom_ids, top_ids;  // in Wiring::blobs
  BlobVec bottom, top;
  int layer_index = -1;  // in Wiring::layers; -1: a pass added this layer
  bool makes_top =
      false;  // a cast that a pass added, whose top is that of the user's layer before it
  bool quantized = false;  // a bottom or a top holds codes

  bool added() const { return layer_index < 0; }
};

// How layers and blobs are connected. Constant after NetBuilder has made it; what the blobs hold and
// on which device they lie may change.
//
// A node reads and writes blobs; the user knows some of them. A blob of an added layer stands for one
// of the user's. A blob that layers change in place may have earlier versions with memory of their own
// (SeparateInPlace); the user knows the last version.
struct Wiring {
  Wiring();
  ~Wiring();
  Wiring(Wiring&&) noexcept;
  Wiring& operator=(Wiring&&) noexcept;

  std::string name;
  Phase phase;
  std::unique_ptr<NetParameter>
      parameter;                         // the user's layers that the state admits, without weights
  std::unique_ptr<Workspace> workspace;  // the layers use it in turn
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<BlobBase>> blobs;
  std::map<int, int> origins;   // blob of an added layer -> the blob that it stands for
  std::map<int, int> versions;  // earlier version -> last version

  // What the user sees.
  std::vector<std::shared_ptr<LayerBase>> layers;
  std::vector<std::string> layer_names;
  std::vector<int> layer_nodes;  // in nodes
  std::vector<std::shared_ptr<BlobBase>> user_blobs;
  std::vector<std::string> user_blob_names;
  std::vector<std::vector<int>> bottom_ids, top_ids;  // of each of `layers`, in user_blobs
  std::vector<int> inputs, outputs;                   // in user_blobs
  std::vector<float> loss_weights;                    // of user_blobs

  // All parameters in the order of their layers, shared ones repeated; and each once. Layers that share
  // a parameter hold the same blob; one that sees it in another shape (PERMISSIVE) holds a blob of that
  // shape on the same memories.
  std::vector<std::shared_ptr<BlobBase>> parameters;
  std::vector<int> learnable_ids;  // of `parameters`, in `learnable`
  std::vector<BlobBase*> learnable;
  std::vector<float> lr_mult, decay_mult;  // of `learnable`

  // A layer of the user whose backward pass reads what another one overwrites, in a net that keeps
  // nothing for gradients. Indices in `layers`.
  struct GradientConflict {
    int reader, writer;
    std::string reason;
  };
  std::vector<GradientConflict> gradient_conflicts;

  // The last version of the user's blob for which a blob stands.
  int UserBlob(int id) const;
  // The version of the user's blob for which a blob stands.
  int Version(int id) const;
  // The user's name of a blob or of an earlier version of it.
  const std::string& ShownName(int id) const;
  // The name of the range of a top: the name of the user's blob; <blob>@<layer> if a later layer
  // changes that blob in place.
  std::string RangeName(const Node& node, int top) const;

  int last_node() const { return static_cast<int>(nodes.size()) - 1; }
  int last_layer() const { return static_cast<int>(layers.size()) - 1; }
  // The node behind the nodes that belong to a layer: its own and the added ones that follow.
  int EndOf(int layer) const;
  // Added nodes before node `first` from which nodes `first` to `last` read, last one first.
  std::vector<int> AddedNodesBefore(int first, int last) const;
  // Nodes of a backward pass from layer `start` to layer `end`, in its order. Added nodes behind `start`
  // are left out, because its tops have their diffs; those in front of `end` bring its gradients to
  // the blobs that the user knows.
  std::vector<int> BackwardNodes(int start, int end) const;
};

}  // namespace caffe
