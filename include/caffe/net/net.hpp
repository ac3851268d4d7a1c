#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_types.hpp"
#include "caffe/layer/step_state.hpp"
#include "caffe/net/plan.hpp"

namespace caffe {

class NetParameter;
class NetRunState;
class NetState;
class RangeObserver;

struct NetOptions {
  // Null: the calling thread's default device, and the net moves with it at its next forward.
  Device* device = nullptr;
  int phase = -1;  // -1: as the parameter's state says, TEST by default
  int level = 0;
  std::vector<std::string> stages;
  // Seed of fillers and dropout; negative: a different one every time.
  int64_t seed = -1;
  // Where the layers stand in the file of the net, for errors (ReadNetFile).
  LayerLines lines;
};

// Bytes that a net holds on its device after a whole forward and, in phase TRAIN or with
// force_backward, backward. Memory that blobs share counts once; workspaces come on top.
struct MemoryNeeds {
  int64_t data = 0, diffs = 0, parameters = 0, parameter_diffs = 0;
  int64_t total() const { return data + diffs + parameters + parameter_diffs; }
  std::string ToString() const;
};

// Ordered layers and named blobs. Built from a NetParameter through the passes of graph/, run as a
// plan of steps. Split and cast layers that the passes added are invisible in layers(), blobs(),
// Forward(start, end) and ToProto. So are the earlier versions of a blob that SeparateInPlace gave
// memory of their own: blobs() has the last one, parts of a forward or backward read and write it.
//
// Used by one thread at a time. Throws with the names of layer and blob if the net does not fit
// together. Until shapes change, Forward and Backward only enqueue work.
class Net {
 public:
  explicit Net(const NetParameter& parameter, const NetOptions& options = {});
  // From a prototxt.
  Net(const std::string& path, const NetOptions& options);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  void Forward();
  // Layers start up to and including end, by their places in layers(). They read what their bottoms
  // hold now, also through casts.
  void Forward(int start, int end);
  // Begins with the weights of the losses, unless the caller wrote another diff to one; under a loss
  // scale other than 1 the weights always count.
  void Backward();
  // From layer start down to and including end, from the diffs that the tops of start hold now (those
  // of losses among these layers as above) to the diffs of the bottoms of end.
  void Backward(int start, int end);
  void ClearParamDiffs();
  // From now on Backward computes the gradients at these blobs, too. After a forward that kept too
  // little for that, the layers concerned compute once more, with the same random numbers. Throws,
  // saying why, if a blob has no gradient.
  void RequestGradients(const std::vector<std::string>& blobs);
  // The same for those of the blobs that have a gradient; gives their names. Throws if no blob has
  // one and Backward would compute nothing.
  std::vector<std::string> RequestGradientsWhereKnown(const std::vector<std::string>& blobs);
  // Throws, naming the first one, if a layer that a gradient has to pass computes in codes.
  void CheckTrainable() const;
  // Gives every blob the shape that follows from the shapes of the inputs.
  void Reshape();
  // The weighted sum of all losses of the last forward; reads them from the device. Where it is not
  // finite, CheckData is called.
  float Loss();
  // Throws if a layer met data that it cannot take in a forward since the last call, such as a label
  // that names no class. On the CPU Forward throws at once. On a device it does not wait; the tops of
  // such a layer are NaN until this is called, and such items have no gradient.
  void CheckData();

  const std::string& name() const { return name_; }
  Phase phase() const { return phase_; }
  Device* device() const { return device_; }
  // Moves layers, blobs and parameters to another device.
  void SetDevice(Device* device);
  // Moves to the calling thread's default device, as every forward does first. A net that was built
  // for a device of its own stays there.
  void FollowDefaultDevice();

  const std::vector<std::shared_ptr<LayerBase>>& layers() const { return public_layers_; }
  const std::vector<std::string>& layer_names() const { return public_layer_names_; }
  const std::vector<std::shared_ptr<BlobBase>>& blobs() const { return public_blobs_; }
  const std::vector<std::string>& blob_names() const { return public_blob_names_; }
  bool has_blob(const std::string& name) const;
  const std::shared_ptr<BlobBase>& BlobByName(const std::string& name) const;
  bool has_layer(const std::string& name) const;
  const std::shared_ptr<LayerBase>& LayerByName(const std::string& name) const;
  // Places in blobs() of the bottoms and tops of a layer.
  const std::vector<int>& bottom_ids(int layer) const { return public_bottom_ids_[layer]; }
  const std::vector<int>& top_ids(int layer) const { return public_top_ids_[layer]; }
  const std::vector<int>& input_blob_indices() const { return input_indices_; }
  const std::vector<int>& output_blob_indices() const { return output_indices_; }
  std::vector<BlobBase*> input_blobs() const;
  std::vector<BlobBase*> output_blobs() const;
  // Loss weight of each of blobs().
  const std::vector<float>& blob_loss_weights() const { return blob_loss_weights_; }

  // All parameters in the order of their layers, shared ones repeated.
  const std::vector<std::shared_ptr<BlobBase>>& params() const { return params_; }
  // Without repetitions, and their multipliers.
  const std::vector<BlobBase*>& learnable_params() const { return learnable_params_; }
  const std::vector<float>& params_lr() const { return params_lr_; }
  const std::vector<float>& params_weight_decay() const { return params_decay_; }

  StepState& step_state() { return *step_state_; }
  // Any blob narrower than float takes part in the gradient: loss scaling pays.
  bool has_narrow_gradients() const;

  // Parameters become those of the other net's layers of the same names: one memory.
  void ShareTrainedLayersWith(const Net& other);
  void CopyTrainedLayersFrom(const NetParameter& trained);
  // A caffemodel; several separated by commas.
  void CopyTrainedLayersFrom(const std::string& path);
  void ToProto(NetParameter* parameter, bool write_diff = false) const;
  // Weights in HDF5, laid out as BVLC does it. CopyTrainedLayersFrom reads such files, too.
  void SaveHDF5(const std::string& path, bool write_diff = false) const;
  void LoadHDF5(const std::string& path);

  // What a run needs to go on exactly where it was, besides parameters: positions in data, seeds,
  // counters. Layers are found by name; one that the state does not know stays as it is.
  void WriteRunState(NetRunState* state) const;
  void ReadRunState(const NetRunState& state);

  using Callback = std::function<void(int layer)>;
  // Called with the place of a layer in layers(). Nets with callbacks run layer by layer.
  void set_before_forward(Callback callback) { before_forward_ = std::move(callback); }
  void set_after_forward(Callback callback) { after_forward_ = std::move(callback); }
  void set_before_backward(Callback callback) { before_backward_ = std::move(callback); }
  void set_after_backward(Callback callback) { after_backward_ = std::move(callback); }
  // False if callbacks look at no blob, as those that take times: earlier versions of blobs are then
  // not copied for them.
  void set_callbacks_see_blobs(bool value) { callbacks_see_blobs_ = value; }

  // Called between the steps of Forward and Backward; may throw to end them (Ctrl-C).
  void set_interruption(std::function<void()> check) { interruption_ = std::move(check); }

  // Ranges of blobs: collected in every forward while observing, written by ToProto, read by
  // CopyTrainedLayersFrom. A blob that layers change in place has one range for each version: that
  // of the last carries the blob's name, an earlier one <blob>@<layer>.
  // Quantized layers take the ranges that are known when observing ends, or that a file brings.
  void set_observe(bool observe);
  // The mode of a layer's bottom_quantizer or top_quantizer is that of its blob alone, until
  // set_observe gives all blobs one mode.
  bool observe() const { return observe_; }
  struct ObservedRange {
    double low, high;
  };
  std::map<std::string, ObservedRange> Ranges() const;
  // Gives quantized blobs the ranges that a file or the end of observing brought, as the next forward
  // does: for callers that read or write codes before it.
  void UpdateBlobRanges();
  // Gives quantized blobs without a range [-1, 1], and says so: for measuring time alone.
  void UsePlaceholderRanges();

  // Brings the host copies of all blobs that views look at up to date.
  void SyncViews();
  // Counts what live views look at as written, as Forward does. Between two calls of the net, before
  // something else reads the device's copies.
  void TakeViews();

  void set_debug_info(bool value) { debug_info_ = value; }
  const Plan& plan() const { return plan_; }
  // Bytes of all blobs' data, and of all parameters' data.
  int64_t blob_bytes() const;
  int64_t parameter_bytes() const;
  // Known from shapes, before anything is allocated.
  MemoryNeeds memory_needs() const;

 private:
  // A layer with its blobs, internal ones included.
  struct Node {
    std::shared_ptr<LayerBase> layer;
    std::vector<int> bottom_ids, top_ids;
    BlobVec bottom, top;
    std::vector<bool> bottom_gradient;  // propagate_down of Backward
    bool need_backward = false;
    int public_index = -1;      // -1: a split or cast of ours
    bool makes_top = false;     // a cast of ours whose top is that of the layer before
    bool ran = false;           // Forward was called
    std::vector<Shape> shapes;  // of bottoms, then tops, as the layer last saw them
    // Any bottom or top is quantized; then their ranges, and those that the tops get in this
    // forward, which is another one where a ReLU is fused.
    bool quantized = false;
    std::vector<BlobRange> bottom_ranges, top_ranges, written_ranges;
  };

  void Init(const NetParameter& parameter, const NetOptions& options);
  void AppendParameters(int node);
  void DecideGradients();
  void ListLosses();
  std::string WhyNoGradient(int id) const;
  bool TryRequest(const std::string& blob, std::string* why);
  void CheckConflicts() const;
  void RepeatForward(const std::vector<bool>& needed_before);
  void MakeOrigins(const NetParameter& separated);
  void MakePublicLists();
  void MakePlan();
  static void NoteShapes(Node& node);
  static bool HasNotedShapes(const Node& node);
  void ReshapeIfNeeded(Node& node);
  void RunNode(int node);
  void InLayer(const LayerBase& layer, const std::function<void()>& work) const;
  void RefreshViews();
  void RefreshDiffViews();
  void ForgetOverwrittenViews();
  void RunCallback(const Callback& callback, int place);
  void RunForwardCallback(const Callback& callback, const Node& node, const std::vector<int>& ids);
  void Observe(const Node& node);
  std::string RangeName(const Node& node, int top) const;
  int UserBlob(int id) const;
  int Version(int id) const;
  void CopyVersion(int from, int to, bool diff);
  QuantRange RangeAsRead(int id) const;
  void TakeVersions(int first, int last);
  void PublishVersions(int first, int last);
  void ShareVersionDiffs();
  void CopyVersionDiffs(const std::vector<int>& ids, bool to_version);
  void InitRanges(const NetParameter& given, const NetParameter& net);
  void ReadLayerQuantizers(const NetParameter& net);
  void TakeRanges(const NetParameter& source);
  bool observes_any() const { return observe_ || !observed_blobs_.empty(); }
  void ResolveRanges();
  void PrepareQuantized(int first, int last, bool by_layer);
  void WriteRanges(NetParameter* parameter) const;
  std::vector<int> InternalNodesBefore(int first, int last) const;
  std::vector<int> BackwardNodes(int start, int end);
  void SeedLosses(const std::vector<int>& nodes);
  const std::string& ShownName(int id) const;
  void DebugForward(const Node& node) const;
  void DebugBackward(const Node& node) const;
  void DebugParameters() const;
  void CheckForward(const Node& node) const;
  void CheckBackward(const Node& node) const;

  std::string name_;
  Phase phase_;
  Device* device_ = nullptr;
  bool explicit_device_ = false;
  bool debug_info_ = false, check_finite_ = false;
  std::unique_ptr<NetParameter> filtered_;  // what ToProto writes, without weights
  std::unique_ptr<StepState> step_state_;
  std::vector<Node> nodes_;
  std::vector<std::shared_ptr<BlobBase>> blobs_;
  std::map<std::string, int> blob_index_;  // of the last version of a name
  std::vector<bool> blob_gradient_;
  std::set<int> requested_;                     // blobs of the user
  std::map<std::string, std::string> refused_;  // blob -> why it has no gradient
  // Layers of the user that read in backward what another one overwrites, since a net in phase TEST
  // keeps nothing for gradients.
  struct GradientConflict {
    int reader, writer;
    std::string reason;
  };
  std::vector<GradientConflict> conflicts_;
  Plan plan_;

  std::vector<std::shared_ptr<LayerBase>> public_layers_;
  std::vector<std::string> public_layer_names_;
  std::vector<int> public_nodes_;  // place in nodes_
  std::vector<std::shared_ptr<BlobBase>> public_blobs_;
  std::vector<std::string> public_blob_names_;
  std::vector<std::vector<int>> public_bottom_ids_, public_top_ids_;
  std::vector<int> input_indices_, output_indices_;
  std::vector<float> blob_loss_weights_;

  std::vector<std::shared_ptr<BlobBase>> params_;
  std::vector<BlobBase*> learnable_params_;
  std::vector<float> params_lr_, params_decay_;
  struct Owner {
    std::string layer;
    int index;      // in the layer's blobs
    int learnable;  // in learnable_params_
    bool lr_given, decay_given;
  };
  std::map<std::string, Owner> param_owners_;
  struct LossTop {
    BlobBase* blob;
    float weight;
    int node;
    std::unique_ptr<Kernel> seed;
    // The diff as the net left it: another version of it was written by the caller.
    std::shared_ptr<SyncedMemory> diff;
    uint64_t version = 0;
    bool given = false, seeded = false;
  };
  bool WrittenByCaller(const LossTop& loss) const;
  std::vector<LossTop> losses_;
  std::map<int, int> origin_;    // blob of an internal layer -> the blob that the user knows
  std::map<int, int> versions_;  // an earlier version with memory of its own -> the last one
  bool observe_ = false, placeholder_ranges_ = false;
  bool any_quantized_ = false, ranges_changed_ = true;
  std::map<std::string, std::unique_ptr<RangeObserver>> observers_;
  std::map<std::string, ObservedRange> loaded_ranges_;
  // By the names of ranges, what quantizers of layers say: their mode, their own name or zone.
  std::set<std::string> observed_blobs_, unobserved_blobs_;
  std::map<std::string, std::set<std::string>> quantizer_names_;
  std::map<int64_t, std::set<std::string>> quantizer_zones_;
  Callback before_forward_, after_forward_, before_backward_, after_backward_;
  bool callbacks_see_blobs_ = true;
  std::function<void()> interruption_;
};

}  // namespace caffe
