#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/graph/typed_net.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

class CompositeLayer;
class Device;
class ParamSpec;
struct LayerTraits;
struct LayerLines;
struct SubNet;
struct TypedLayer;

// A net, or the SubNet of a composite layer, and what the passes of graph/ make of it.
struct NetLevel {
  // Runs the passes on the layers whose rules the state meets.
  explicit NetLevel(NetParameter filtered);
  // Puts `prefix` before the names of layers, blobs and shared parameters.
  void Prefix(const std::string& prefix);

  NetParameter filtered;
  TypedNet separated, net;
  int casts = 0, casts_omitted = 0, casts_moved = 0;
  // The layers of `net` that are nodes, and those of `separated` (-1: no node), in their order.
  std::vector<int> nodes, nodes_of_layers;
};

// Throws if the mixtures of experts of a net, with the mixtures in their nets, have too many expert
// nets: a few kB of text can ask for more than any memory holds. Names the layer.
void CheckExpertNets(const NetParameter& net);

// Makes the layers, blobs and parameters of a net: runs the passes of graph/, sets up the layers in
// their order and connects them. A composite layer is preceded by the nodes of its SubNet
// (inline_nested.cpp). Writes the log lines of BVLC's Net::Init.
class NetBuilder {
 public:
  // `lines` has the lines of the layers in the net's file, for errors.
  NetBuilder(Device* device, uint64_t seed, const LayerLines& lines);
  // `given`: the net's state must be complete (phase, level, stages). Its weights are copied to the
  // parameters. Throws, with the names of layer and blob, for an invalid net.
  Wiring Build(const NetParameter& given);

 private:
  // The user's name of a blob, for log lines.
  const std::string& Shown(const std::string& blob) const;
  // At level info, or debug for nested nodes.
  void Log(const std::string& line) const;
  // Adds the node, for a composite layer after its nested ones.
  void AddNode(const TypedLayer& typed, NetLevel* level);
  void SetUp(const TypedLayer& typed, Node* node);
  void FindBottoms(const LayerParameter& layer, Node* node);
  void MakeTops(const TypedLayer& typed, Node* node);
  void NoteShownNames(const NetLevel& level);
  // Fills conflicts, origins and versions of the wiring.
  void FindConflicts(const NetLevel& level);
  void FindOrigins(const NetLevel& level);
  void ListForUser();

  // Adds the nodes that compute the layer, and makes their outputs the bottoms of `node`.
  void Inline(const TypedLayer& typed, CompositeLayer* layer, Node* node);
  // `inputs`: layers of the level that stand for bottoms of `node`; as many as it has tops stand
  // for these.
  void AddNestedNodes(NetLevel* level, size_t inputs, Node* node);
  // Notes at the nodes from `begin` on which bottoms of the composite layer have gradients.
  void LimitGradients(const LayerParameter& layer, int begin, const Node& node);

  // A blob of the layer of a node.
  struct Slot {
    int node, index;
    bool operator<(const Slot& other) const {
      return node != other.node ? node < other.node : index < other.index;
    }
  };
  // The parameter of a blob, as the composite layers around it change it.
  ParamSpec SpecOf(const Slot& slot) const;
  // The blobs of a composite layer, in the order of files.
  std::vector<Slot> FindSlots(const SubNet& net, const NetLevel& level, const std::string& prefix,
                              const LayerBase& layer) const;
  // Applies the param entries of a composite layer to its blobs, and to those of the nodes from
  // `begin` on that are shared with them.
  void ChangeSpecs(const LayerBase& layer, const std::vector<Slot>& slots, int begin);
  // Makes the blobs of the node's layer learnable; returns their indices in Wiring::learnable.
  std::vector<int> AppendLearnable(int node);
  void AppendParameters(int node);
  // Makes the nested parameters from node `begin` on parameters of the net, in the order of the
  // last node, which is the composite layer that encloses them.
  void AppendNestedParameters(int begin);
  // Gives a composite layer the blobs of its slots.
  void TakeNestedBlobs(int node);
  // Orders the learnable parameters from `first` on as `slots`, which must have all of them.
  void OrderLearnable(const LayerBase& layer, const std::vector<Slot>& slots, int first,
                      std::map<Slot, int>* ids);
  // The index in Wiring::learnable of a blob, a new one or, if it is shared, that of its owner.
  // `replaced`: the layer got another blob.
  int Learnable(LayerBase* layer, int index, const ParamSpec& spec, bool* replaced);
  // Gives the layer the blob that has the name already. False if it keeps a blob of another shape.
  bool Share(LayerBase* layer, int index, const ParamSpec& spec);

  Device* device_;
  uint64_t seed_;
  const LayerLines& lines_;
  Wiring wiring_;
  int depth_ = 0;                    // of composite layers around the nodes that are added now
  std::map<Slot, ParamSpec> specs_;  // that composite layers changed
  std::map<int, std::vector<Slot>> slots_;          // of the nodes of composite layers
  std::map<std::string, int> blob_ids_;             // by the blobs' names after the passes
  std::set<std::string> prefixes_;                  // of the names of nested layers
  std::map<std::string, std::string> shown_names_;  // of blobs whose name a pass changed
  struct Owner {
    std::string layer;
    int index;      // in the layer's blobs
    int learnable;  // in Wiring::learnable
    std::shared_ptr<BlobBase> blob;
    bool lr_given, decay_given;
  };
  std::map<std::string, Owner> owners_;  // by the names in ParamSpec
};

}  // namespace caffe
