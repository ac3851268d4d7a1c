#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "caffe/layer/layer.hpp"

namespace caffe {

class NetParameter;
class Workspace;

// A layer with its blobs. Layers that the passes of graph/ added (splits, casts) are nodes, too,
// and so are the layers that compute a composite layer (CompositeLayer): they lie before its node.
struct Node {
  // Whether a bottom has a gradient, as a composite layer says it of its own bottoms.
  enum class Propagation : char {
    kAsNeeded,
    kYes,    // propagate_down: true
    kNo,     // propagate_down: false
    kNever,  // LayerTraits::no_gradient_bottoms
  };

  std::shared_ptr<LayerBase> layer;
  std::vector<int> bottom_ids, top_ids;  // in Wiring::blobs
  BlobVec bottom, top;
  std::vector<float> lr_mult;  // of the layer's blobs()
  int layer_index = -1;        // in Wiring::layers; -1: not a layer of the user
  int nested_in = -1;  // in Wiring::layers: the composite layer that this node computes a part of
  bool by_pass = false;
  // A cast added by a pass, whose top is the top of the layer before it.
  bool makes_top = false;
  bool quantized = false;  // a bottom or a top holds codes
  // The layer is composite: its tops share the memory of `bottom`, the outputs of its SubNet.
  bool composite = false;
  std::vector<int> own_bottom_ids;  // the bottoms of a composite layer itself
  // A nested node of a layer with CompositeLayer::fixed_ranges.
  bool fixed_ranges = false;
  // For each bottom of a nested node: which gradients it gets.
  std::vector<Propagation> propagation;

  // A pass added this layer.
  bool added() const { return by_pass; }
  // In Wiring::layers: the user's layer that this node is, or computes a part of; -1: none.
  int user_layer() const { return layer_index >= 0 ? layer_index : nested_in; }
  // The bottoms that the layer's parameter names.
  const std::vector<int>& named_bottom_ids() const {
    return composite ? own_bottom_ids : bottom_ids;
  }
};

// The connections of layers and blobs. Constant after NetBuilder has made it; only the content and
// the device of the blobs may change.
//
// A nested node computes a part of a composite layer. The layer's nested nodes and its own node are
// neighbours, and the last of them is its own. Blobs that nested nodes write are not the user's.
//
// A node reads and writes blobs; some of them are the user's. A blob of an added layer stands for
// one of the user's. A blob that layers change in place may have earlier versions with separate
// memory (SeparateInPlace); the user's blob is the last version.
struct Wiring {
  Wiring();
  ~Wiring();
  Wiring(Wiring&&) noexcept;
  Wiring& operator=(Wiring&&) noexcept;

  std::string name;
  Phase phase;
  std::unique_ptr<NetParameter>
      parameter;  // the user's layers whose rules the state meets, without weights
  std::unique_ptr<Workspace> workspace;  // shared by the layers, which run one after the other
  std::vector<Node> nodes;
  // The layer names of `nodes` in names of ranges, see UniqueNames; empty for added nodes.
  std::vector<std::string> unique_names;
  std::vector<std::shared_ptr<BlobBase>> blobs;
  std::map<int, int> origins;   // blob of an added layer -> the blob that it stands for
  std::map<int, int> versions;  // earlier version -> last version

  // The layers and blobs that the user sees.
  std::vector<std::shared_ptr<LayerBase>> layers;
  std::vector<std::string> layer_names;
  std::vector<int> layer_nodes;   // in nodes
  std::vector<int> layer_begins;  // the first node of each layer: a nested one, or its own
  std::vector<std::shared_ptr<BlobBase>> user_blobs;
  std::vector<std::string> user_blob_names;
  std::vector<std::vector<int>> bottom_ids, top_ids;  // of each of `layers`, in user_blobs
  std::vector<int> inputs, outputs;                   // in user_blobs
  std::vector<float> loss_weights;                    // of user_blobs

  // All parameters in the order of their layers, shared ones repeated; and each once. Layers that
  // share a parameter hold the same blob; one that sees it in another shape (PERMISSIVE) holds a
  // blob of that shape on the same memories.
  std::vector<std::shared_ptr<BlobBase>> parameters;
  std::vector<int> learnable_ids;  // of `parameters`, in `learnable`
  std::vector<BlobBase*> learnable;
  std::vector<float> lr_mult, decay_mult;  // of `learnable`

  // The nested layer of which a parameter of a composite layer is blob `index`.
  struct NestedBlob {
    LayerBase* layer;
    int index;
  };
  std::map<const BlobBase*, NestedBlob> nested_blobs;

  // A node whose backward pass reads a blob that another node overwrites, in a net that keeps no
  // data for gradients. Indices in `nodes`.
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
  // changes that blob in place. The layer has its name of unique_names.
  const std::string& RangeName(const Node& node, int top) const {
    return range_names[&node - nodes.data()][top];
  }
  // The name of the range of each top of each node. NameRanges sets these and unique_names when
  // nodes, blobs and layers are complete.
  std::vector<std::vector<std::string>> range_names;
  void NameRanges();
  // Those of all tops that have a name, in the order of the layers.
  std::vector<std::string> RangeNames() const;
  // The name of the range of the layer's weights.
  std::string WeightsRange(const Node& node) const;
  // The node that alone reads the version of a blob that a node writes, as one bottom; else -1.
  int OnlyReader(int writer, int blob) const;
  // The blobs of which a join is the only reader, and which are not joins' copies already: the
  // names of their ranges, and of those of the joins' tops. If both have the same range, codes are
  // copied, or written into the joined blob at once. Tops come before the bottoms that are joins
  // themselves.
  std::vector<std::pair<std::string, std::string>> TiedRanges() const;

  int last_node() const { return static_cast<int>(nodes.size()) - 1; }
  int last_layer() const { return static_cast<int>(layers.size()) - 1; }
  // The first node after those of a layer: nested ones, its own and the added ones that follow.
  int EndOf(int layer) const;
  // Added nodes before node `first` whose tops nodes `first` to `last` read, last one first.
  std::vector<int> AddedNodesBefore(int first, int last) const;
  // Nodes of a backward pass from layer `start` to layer `end`, in its order. Added nodes after
  // `start` are left out, because the diffs of its tops are given; those before `end` add its
  // gradients to the user's blobs.
  std::vector<int> BackwardNodes(int start, int end) const;
};

}  // namespace caffe
