#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/layer.hpp"

namespace caffe {

class NetParameter;

// The layers that compute a composite layer, as a net. Names of layers and blobs are relative: the
// builder of the parent net puts "<composite layer>/" before them.
struct SubNet {
  SubNet();
  ~SubNet();
  SubNet(SubNet&&) noexcept;
  SubNet& operator=(SubNet&&) noexcept;

  // Without layers for the bottoms: a blob of `inputs` exists already. The builder filters the
  // layers by the state of the parent net, and sets this net's data_type, if it has none, to the
  // type in which the composite layer computes. If the composite layer has recompute: true, so have
  // the layers that do not set it. A name in a ParamSpec is relative, too.
  std::unique_ptr<NetParameter> net;
  // For each bottom, the name under which the layers read it; empty: no layer reads it.
  std::vector<std::string> inputs;
  // For each top, the blob of the net that it is.
  std::vector<std::string> outputs;

  // The blob `index` of a layer of the net.
  struct Parameter {
    static constexpr int kAll = -1;  // all blobs of the layer, in their order
    std::string layer;
    int index = 0;
  };
  // blobs() of the composite layer, in the order of files; each blob of the layers once. Learning
  // rates and decay are those of the layers' param, unless the composite layer's own param with
  // that index sets them. If this is empty: all blobs in the order of the layers, shared ones once.
  std::vector<Parameter> parameters;
};

// A layer that other layers compute. A net contains these layers in place of it: they are nodes of
// its Wiring, before the node of the composite layer itself. That node's bottoms are the outputs of
// the SubNet, and its tops share their memory; nothing is copied. The user sees only the composite
// layer, with its own bottoms. blobs() are those of the nested layers.
//
// Forward throws outside a net. LayerSetUp, Reshape, Forward and Backward get the outputs of the
// SubNet as bottoms.
class CompositeLayer : public LayerBase {
 public:
  using LayerBase::LayerBase;

  // Called once, before SetUp, with the layer's own bottoms, which have their types and shapes.
  virtual SubNet Expand(const BlobVec& bottom, int tops) = 0;
  // Called once, after Expand, with the layers that were made of the SubNet, after their SetUp, in
  // their order. Layers added by passes are not among them; layers nested in them are.
  virtual void Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) {}
  // Throws if the nested layers cannot compute their tops from bottoms of these shapes. Called with
  // the layer's own bottoms before a nested layer takes new shapes.
  virtual void CheckShapes(const BlobVec& bottom) const {}
  // Whether the ranges of nested layers are neither observed nor stored: those of codes are their
  // LayerFacts::bounds.
  virtual bool fixed_ranges() const { return false; }
  // Whether the debug lines of nested layers are written although the net's debug_info is off.
  virtual bool debug_info() const { return false; }

  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

  // The builder of a net calls this after it has made the nested layers.
  void SetInNet(int outputs) { outputs_ = outputs; }

 private:
  void CheckInNet() const;

  int outputs_ = -1;  // -1: the layer is not in a net
};

}  // namespace caffe
