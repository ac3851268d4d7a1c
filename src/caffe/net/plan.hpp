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
#include "caffe/layer/work.hpp"
#include "caffe/net/arrays.hpp"

namespace caffe {

// The properties of a node that a plan depends on: those of its layer, and the blobs that it reads
// and writes, by their index.
struct PlanNode {
  std::string name;
  LayerFacts facts;
  TypeTriple types = TypeTriple::Equal(kFloat);
  std::vector<int> bottoms, tops;
  // For a node that joins blobs of codes: whether each bottom has the range of the top.
  std::vector<bool> tied = {};

  // Whether a node that joins blobs writes the elements of a bottom unchanged.
  bool CopiesUnchanged(size_t bottom) const {
    return types.compute.is_float() || (bottom < tied.size() && tied[bottom]);
  }
};

// A bottom of a node that joins blobs (LayerFacts::join). The step that writes the bottom writes it
// as a part of the array of the node's top, in kNHWC.
struct Part {
  int node = -1;   // -1: none
  int bottom = 0;  // index in PlanNode::bottoms
  int whole = -1;  // the array
  explicit operator bool() const { return node >= 0; }
};

// The request for the work of a step.
struct StepRequest : WorkRequest {
  Chain chain;            // empty: the first layer makes the work
  bool converts = false;  // the work only copies an array to one in another layout
};

// One unit of a forward. If its first node has weights, that one computes all of its nodes: affine
// maps of the others are folded into its weights, sums and activations are stages of its epilogue.
// Otherwise all of its nodes are element-wise, and are the stages of a chain.
//
// A conversion between layouts is a step, too. Right before and after a step there are those that
// only that step needs.
struct Step {
  std::vector<int> nodes;  // in the order of the net; of a conversion: the first one of that step
  StepRequest request;
  // Arrays: those of the first node's bottoms, and those that sums of later nodes add.
  std::vector<int> reads;
  std::vector<int> writes;  // of the last node's tops
  int over = -1;  // of `reads`: the one that the only array of `writes` may be written over
  Part part;      // what its only top is

  // The conversion of one array to another, for the step that begins with the node.
  static Step Conversion(int node, int from, int to);
  bool converts() const { return request.converts; }
  bool fused() const { return nodes.size() > 1; }
  // The step covers several nodes and has their backward pass.
  bool trains() const { return request.scale.has_value(); }
  bool in_c_order() const { return request.layouts == LayoutPair{}; }
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
  // backward pass computes; empty if the node has no backward pass. The executor must have an
  // arena.
  std::vector<std::vector<bool>> gradients = {};
};

// The steps of a net's forward, a pure function of the properties of its layers. A node joins the
// step of the node before it if it is the only reader of that node's top and the step can compute
// it; see LayerFacts. Steps grow from layers with weights and from element-wise layers.
struct Plan {
  std::vector<Step> steps;
  // In training: conversions of diffs. Each follows the backward pass of its node.
  std::vector<Step> diffs;
  // The arrays that the steps read and write. The tops of a Split are copies of its bottom
  // (Arrays::MakeCopy); in training each has an array of its own in kNHWC, whose data they share.
  Arrays arrays;

  static Plan Make(const std::vector<PlanNode>& nodes, const PlanOptions& options);
  // A line for each step that covers several nodes: "conv1 + bn1 + relu1".
  std::string Report(const std::vector<PlanNode>& nodes) const;
  // Conversions for a step are its neighbours. Whether a step is the first one of such a group, or
  // the last one.
  bool begins(size_t step) const {
    return step == 0 || steps[step - 1].nodes[0] != steps[step].nodes[0];
  }
  bool ends(size_t step) const { return step + 1 == steps.size() || begins(step + 1); }
  int fused_steps() const;
  int conversions() const;
};

}  // namespace caffe
