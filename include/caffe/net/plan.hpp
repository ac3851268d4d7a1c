#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/layout.hpp"
#include "caffe/layer/chain.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

// The properties of a node that a plan depends on: those of its layer, and the blobs that it reads
// and writes, by their index.
struct PlanNode {
  std::string name;
  LayerFacts facts;
  TypeTriple types = TypeTriple::Equal(kFloat);
  std::vector<int> bottoms, tops;
  // Of a node that joins blobs of codes: whether each bottom has the range of the top.
  std::vector<bool> tied = {};

  // Whether a node that joins blobs writes the elements of a bottom unchanged.
  bool CopiesUnchanged(size_t bottom) const {
    return types.compute.is_float() || (bottom < tied.size() && tied[bottom]);
  }
};

// A blob may have two arrays: its own memory, in C order (kNCHW), and one in kNHWC. A conversion
// writes the second from the first, or the reverse.
struct Conversion {
  int blob;
  Layout to;
  bool operator==(const Conversion&) const = default;
};

// A bottom of a node that joins blobs (LayerFacts::join). The step that writes the bottom writes it
// as a part of the node's top, in kNHWC.
struct Part {
  int node = -1;   // -1: none
  int bottom = 0;  // index in PlanNode::bottoms
  explicit operator bool() const { return node >= 0; }
};

// One unit of a forward. If its first node has weights, that one computes all of its nodes: affine
// maps of the others are folded into its weights, sums and activations are stages of its epilogue.
// Otherwise all of its nodes are element-wise, and are the stages of a chain.
struct Step {
  std::vector<int> nodes;  // in the order of the net
  std::vector<Affine> maps;
  std::vector<Epilogue::Stage> stages;
  const BlobBase* slopes = nullptr;  // of PReLU, in `stages`
  Chain chain;                       // empty: the first layer makes the work
  std::vector<int> summands;         // blobs that sums of later nodes add
  std::vector<int> tops;             // blobs that the step writes
  std::vector<int> swallowed;        // blobs between its nodes, which it does not write
  // The arrays of bottoms and tops that it reads and writes; those of summands are the tops'.
  LayoutPair layouts;
  int laid_out = -1;                      // LayerFacts::Layouts::bottoms
  std::vector<Conversion> before, after;  // of its inputs and tops
  std::vector<int> unstored;              // tops that it writes in kNHWC alone
  // Of a step whose work has a backward pass, which runs in place of those of its nodes: the bottoms
  // whose gradients it computes.
  std::vector<bool> gradients;
  // Tops whose arrays in kNHWC have the memory of those of bottoms, in training.
  std::vector<std::pair<int, int>> shared;
  // Diffs of bottoms that are converted after the step's backward pass, to the layout in which an
  // earlier step reads them.
  std::vector<Conversion> diffs;
  Part part;  // what its only top is
  // Of a step that computes its nodes' backward passes, too.
  std::optional<ChannelScale> scale;

  // Of the bottom with this index.
  Layout bottom_layout(size_t index) const {
    const bool has = laid_out < 0 || index < static_cast<size_t>(laid_out);
    return has ? layouts.x : Layout::kNCHW;
  }
  bool fused() const { return nodes.size() > 1; }
  // The step covers several nodes and has their backward pass.
  bool trains() const { return scale.has_value(); }
  bool channels_last() const { return layouts != LayoutPair{}; }
};

struct PlanOptions {
  // Steps may cover several nodes.
  bool fuse = true;
  // Blobs that every forward must write: the user keeps them, or they are losses.
  std::set<int> kept;
  // Nodes whose backward pass computes all gradients, each followed by one: steps may cover several
  // of them, LayerFacts::normalized.
  std::set<int> trained;
  // Steps may write their tops as parts of arrays in kNHWC. The executor must have an arena.
  bool parts = false;
  // Not empty: steps of training may use kNHWC. For each node, the bottoms whose gradients the
  // backward pass computes; empty if the node has no backward pass. The executor must have an arena.
  std::vector<std::vector<bool>> gradients = {};
};

// The steps of a net's forward, a pure function of the properties of its layers. A node joins the
// step of the node before it if it is the only reader of that node's top and the step can compute
// it; see LayerFacts. Steps grow from layers with weights and from element-wise layers.
struct Plan {
  std::vector<Step> steps;
  // For each blob, the blob whose array in kNHWC it uses: another one if it is a copy of that blob
  // without memory of its own (Split). In training each has one of its own, whose data they share.
  std::vector<int> channels_last;
  static Plan Make(const std::vector<PlanNode>& nodes, const PlanOptions& options);
  // A line for each step that covers several nodes: "conv1 + bn1 + relu1".
  std::string Report(const std::vector<PlanNode>& nodes) const;
  int fused_steps() const;
  int conversions() const;
};

}  // namespace caffe
