#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

class LayerParameter;
class ParamSpec;
class Work;
class Workspace;
struct LayerFacts;
struct WorkRequest;

enum Phase : int;

// A net is one of `ranks` replicas that train together, each with its share of the data.
struct Replica {
  int rank = 0, ranks = 1;
  bool operator==(const Replica&) const = default;
};

// The environment in which a layer is built. Borrowed pointers outlive the layer.
struct LayerContext {
  Device* device = nullptr;
  TypeTriple types = TypeTriple::Equal(kFloat);
  // The seed of what replicas have in common: initial values, and the order of the data.
  uint64_t seed = 0;
  Replica replica;
  // Scratch memory of the net, shared by its layers. A layer without one makes its own.
  Workspace* workspace = nullptr;

  // The seed of the random numbers of forwards, which differ between replicas: masks of Dropout,
  // noise. That of rank 0 is `seed`.
  uint64_t draw_seed() const;
};

// The meaning of a quantized blob's codes, with the name under which its range is observed.
struct BlobRange : QuantRange {
  std::string name;
};

// Those of a layer's blobs. A blob that is changed in place has one range as a bottom and another
// one as a top.
struct NodeRanges {
  std::vector<BlobRange> bottom, top;
};

// Arrays of a layer besides its blobs that are as large as a bottom or a top. The net's memory plan
// gives them bytes that other arrays use at other times.
struct LayerArrays {
  BlobVec kept;     // Forward writes them, Backward reads them
  BlobVec scratch;  // written and read within one Backward
};

// The interface of a layer for Net, Solver and Python, without types. Forward and Backward enqueue
// work on the device and return; until shapes change they do not allocate, wait or look up names.
//
// A layer's own class (ReLU) derives from this and does all the work; the template of the layer
// (ReLULayer<Dtype, MItype, MOtype>) only fixes the types, see Layer below.
class LayerBase {
 public:
  LayerBase(const LayerParameter& parameter, const LayerContext& context);
  virtual ~LayerBase();

  // Checks the numbers of blobs against the traits, then LayerSetUp and Reshape.
  void SetUp(const LayerTraits& traits, const BlobVec& bottom, const BlobVec& top);
  // Reads parameters, creates learnable blobs and kernels. Called once, and again by MoveToDevice.
  virtual void LayerSetUp(const BlobVec& bottom, const BlobVec& top) {}
  // Computes the tops' shapes (and ranges). Called after LayerSetUp and whenever a bottom's shape
  // changed. Operators and kernels that depend on shapes are created here.
  virtual void Reshape(const BlobVec& bottom, const BlobVec& top) = 0;
  // Rebuilds stale derived copies of parameters (half copies of float masters, …). Called before
  // every Forward; must be cheap if nothing changed.
  virtual void PrepareParameters() {}
  // Adds what PrepareParameters allocates on the device; may be called before it. For layers whose
  // works do not count it.
  virtual void CountMemory(struct WorkMemory* memory) const {}
  virtual void Forward(const BlobVec& bottom, const BlobVec& top) = 0;
  // Makes a way of computing this layer together with the layers after it that Facts().weighted
  // allows, for the shapes of the last Reshape. The last of these layers writes `top`. The default
  // runs PrepareParameters and Forward, and throws if more is requested.
  virtual std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                         const BlobVec& top);
  // The properties of the layer for ranges and plans, see layer/layer_facts.hpp. Called after
  // SetUp, and again after MoveToDevice or a change of blobs(). Does not depend on extents of
  // bottoms.
  virtual LayerFacts Facts() const;
  // Computes the tops of the last Forward again from the same bottoms, with the same random
  // numbers, and without counting the pass in statistics.
  virtual void RepeatForward(const BlobVec& bottom, const BlobVec& top) { Forward(bottom, top); }
  // For the current shapes. Allocates nothing.
  virtual LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) { return {}; }
  // Adds to the diffs of blobs() where param_propagate_down, writes the diffs of bottoms where
  // propagate_down. Throws for layers without a gradient.
  virtual void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                        const BlobVec& bottom);
  // Throws, once, if a forward since the last call read invalid data, such as a label that is not a
  // class. Waits for the device. On the CPU Forward throws at once. On a device it does not wait:
  // the top is NaN, so that a caller that reads a finite loss need not call this; the gradient of
  // such items is 0.
  virtual void CheckData() {}
  // LayerSetUp and Reshape on another device; the parameters were moved already. Other state of the
  // user or of a forward (shapes of an Input, a position in the data, a mask) must be kept: see
  // PlaceBlob.
  virtual void MoveToDevice(Device* device, const BlobVec& bottom, const BlobVec& top);
  // Sets the ranges of quantized bottoms and tops, before PrepareParameters and Forward.
  void SetRanges(const NodeRanges& ranges) { ranges_ = ranges; }
  // The state that a run needs to continue exactly, besides parameters and the seed: the position
  // in the data, a counter. Solverstates contain it.
  virtual std::vector<uint64_t> RunState() const { return {}; }
  // Restores a state of RunState with the random numbers of that seed. Throws if the values cannot
  // be this layer's.
  virtual void SetRunState(uint64_t seed, const std::vector<uint64_t>& values);
  // From now on the layer belongs to this replica of its net.
  virtual void SetReplica(const Replica& replica) { context_.replica = replica; }

  const LayerParameter& layer_param() const { return *parameter_; }
  const std::string& name() const;
  const std::string& type() const;
  Phase phase() const;
  const TypeTriple& types() const { return context_.types; }
  Device* device() const { return context_.device; }
  const LayerContext& context() const { return context_; }
  std::vector<std::shared_ptr<BlobBase>>& blobs() { return blobs_; }
  const std::vector<std::shared_ptr<BlobBase>>& blobs() const { return blobs_; }
  bool param_propagate_down(int index) const {
    return index < static_cast<int>(param_propagate_down_.size()) && param_propagate_down_[index];
  }
  void set_param_propagate_down(int index, bool value);
  // False if Backward will not be called: layers that work in place then keep no copies for it.
  bool need_backward() const { return need_backward_; }
  void set_need_backward(bool value) { need_backward_ = value; }
  // The weight of a top in the net's loss; 0 for tops that are not losses.
  float loss_weight(int top) const {
    return top < static_cast<int>(loss_weights_.size()) ? loss_weights_[top] : 0.f;
  }
  void set_loss_weight(int top, float weight);

 protected:
  // "conv1 (Convolution)", the beginning of every message.
  std::string Where() const;
  // For layers that complete their own description, for example BatchNorm.
  LayerParameter* mutable_layer_param() { return parameter_.get(); }
  // The type of learnable blobs: float masters for the narrow types, double for double.
  DataType master_type() const { return types().compute == kDouble ? kDouble : kFloat; }
  // Creates learnable blob `index` of this shape, filled by `filler`, unless it exists.
  void AddParameter(int index, const Shape& shape, const class FillerParameter& filler);
  // A kernel of body kernels/<body>.h for this layer's types.
  std::unique_ptr<Kernel> MakeKernel(const std::string& body, const std::string& kernel) const;
  std::unique_ptr<Kernel> MakeKernel(const std::string& body, const std::string& kernel,
                                     const TypeTriple& types) const;
  // The same for a kernel of work groups: ProgramBuilder::GroupKernel.
  std::unique_ptr<Kernel> MakeGroupKernel(const std::string& body, const std::string& kernel) const;
  // Scratch memory on device(). State a need in Reshape, so that Forward does not allocate.
  Workspace& workspace() const { return *context_.workspace; }
  // A bottom or top as an argument of a launch, from element `offset` on, with its zero point in
  // this forward.
  KernelArgument In(const BlobVec& bottom, int index, int64_t offset = 0) const;
  KernelArgument Out(const BlobVec& top, int index, int64_t offset = 0) const;
  // An argument of type Scaletype: the factor from values of a bottom, in units of its scale, to
  // `factor` times these values, in units of the scale of a top. For float kinds it is `factor`.
  KernelArgument Rescale(int bottom, int top, double factor = 1) const;
  // The range of a quantized bottom or top; throws, with the blob's name, if it was never observed.
  // Scale 1 and zero point 0 for float kinds.
  QuantRange BottomRange(int index) const {
    return Observed(types().in, ranges_.bottom, index, "bottom");
  }
  QuantRange TopRange(int index) const { return Observed(types().out, ranges_.top, index, "top"); }
  // An argument of type Scaletype: `factor` itself for float kinds, as integers for quantized ones.
  KernelArgument Scale(double factor) const;

  // The layer reads its parameters on the host alone: no device need hold them.
  void NoteHostParameters(struct WorkMemory* memory) const;
  QuantRange Observed(DataType type, const std::vector<BlobRange>& ranges, int index,
                      const char* what) const;

  std::vector<std::shared_ptr<BlobBase>> blobs_;

 private:
  std::unique_ptr<LayerParameter> parameter_;
  LayerContext context_;
  std::unique_ptr<Workspace> own_workspace_;
  NodeRanges ranges_;
  std::vector<bool> param_propagate_down_;
  bool need_backward_ = true;
  std::vector<float> loss_weights_;
};

// Fixes a layer's types: compute, bottoms, tops. Base is the untyped class that does the work; a
// layer written by a user derives directly from Layer<Dtype> and uses the typed accessors.
template <class Dtype, class MItype = Dtype, class MOtype = Dtype, class Base = LayerBase>
class Layer : public Base {
 public:
  using Base::Base;
  static TypeTriple Types() {
    return {DataTypeOf<Dtype>::value, DataTypeOf<MItype>::value, DataTypeOf<MOtype>::value};
  }
  static const MItype* Bottom(const BlobVec& bottom, int index) {
    return As<MItype>(*bottom[index]).cpu_data();
  }
  static MOtype* Top(const BlobVec& top, int index) {
    return As<MOtype>(*top[index]).mutable_cpu_data();
  }
};

}  // namespace caffe
