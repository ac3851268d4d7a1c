#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "caffe/net/wiring.hpp"

namespace caffe {

class Device;
struct LayerTraits;
struct LayerLines;
struct TypedLayer;
struct TypedNet;

// Makes the layers, blobs and parameters of a net: runs the passes of graph/, sets up the layers in
// their order and connects them. Writes the log lines of BVLC's Net::Init.
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
  Node MakeNode(const TypedLayer& typed);
  void FindBottoms(const LayerParameter& layer, Node* node);
  void MakeTops(const TypedLayer& typed, Node* node);
  void AppendParameters(const Node& node);
  // Gives the layer the blob that has the name already. False if it keeps a blob of another shape.
  bool Share(LayerBase* layer, int index, const class ParamSpec& spec);
  // Fills origins and versions of the wiring.
  void FindOrigins(const TypedNet& separated);
  void ListForUser();

  Device* device_;
  uint64_t seed_;
  const LayerLines& lines_;
  Wiring wiring_;
  std::map<std::string, int> blob_ids_;             // by the blobs' names after the passes
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
