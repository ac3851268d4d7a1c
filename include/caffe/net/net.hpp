#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "caffe/layer/layer_types.hpp"
#include "caffe/layer/step_state.hpp"
#include "caffe/net/memory_needs.hpp"
#include "caffe/net/observed_range.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

class NetRunState;
class PassObserver;

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

// Ordered layers and named blobs: the façade of the rooms in src/caffe/net. NetBuilder makes the Wiring
// from a NetParameter through the passes of graph/; an Executor runs a Plan of steps. There are two
// plans: one for whole passes, whose steps may cover several layers, and one that runs layer by layer,
// for parts of a pass and for observers that look at every layer.
//
// Split and cast layers that the passes added are invisible in layers(), blobs(), Forward(start, end)
// and ToProto. So are the earlier versions of a blob that SeparateInPlace gave memory of their own:
// blobs() has the last one, parts of a forward or backward read and write it.
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
  // Layers start up to and including end, by their indices in layers(). They read what their bottoms
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

  const std::string& name() const { return wiring_.name; }
  Phase phase() const { return wiring_.phase; }
  Device* device() const { return device_; }
  // Moves layers, blobs and parameters to another device.
  void SetDevice(Device* device);
  // Moves to the calling thread's default device, as every forward does first. A net that was built
  // for a device of its own stays there.
  void FollowDefaultDevice();

  const std::vector<std::shared_ptr<LayerBase>>& layers() const { return wiring_.layers; }
  const std::vector<std::string>& layer_names() const { return wiring_.layer_names; }
  const std::vector<std::shared_ptr<BlobBase>>& blobs() const { return wiring_.user_blobs; }
  const std::vector<std::string>& blob_names() const { return wiring_.user_blob_names; }
  bool has_blob(const std::string& name) const;
  const std::shared_ptr<BlobBase>& BlobByName(const std::string& name) const;
  bool has_layer(const std::string& name) const;
  const std::shared_ptr<LayerBase>& LayerByName(const std::string& name) const;
  // Indices in blobs() of the bottoms and tops of a layer.
  const std::vector<int>& bottom_ids(int layer) const { return wiring_.bottom_ids[layer]; }
  const std::vector<int>& top_ids(int layer) const { return wiring_.top_ids[layer]; }
  const std::vector<int>& input_blob_indices() const { return wiring_.inputs; }
  const std::vector<int>& output_blob_indices() const { return wiring_.outputs; }
  std::vector<BlobBase*> input_blobs() const;
  std::vector<BlobBase*> output_blobs() const;
  // Loss weight of each of blobs().
  const std::vector<float>& blob_loss_weights() const { return wiring_.loss_weights; }

  // All parameters in the order of their layers, shared ones repeated.
  const std::vector<std::shared_ptr<BlobBase>>& params() const { return wiring_.parameters; }
  // Without repetitions, and their multipliers.
  const std::vector<BlobBase*>& learnable_params() const { return wiring_.learnable; }
  const std::vector<float>& params_lr() const { return wiring_.lr_mult; }
  const std::vector<float>& params_weight_decay() const { return wiring_.decay_mult; }

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
  // Called with the index of a layer in layers(). Nets with callbacks run layer by layer.
  void set_before_forward(Callback callback);
  void set_after_forward(Callback callback);
  void set_before_backward(Callback callback);
  void set_after_backward(Callback callback);
  // Told of every layer that runs, until it is removed.
  void AddObserver(PassObserver* observer);
  void RemoveObserver(PassObserver* observer);

  // Called between the steps of Forward and Backward; may throw to end them (Ctrl-C).
  void set_interruption(std::function<void()> check);

  // Ranges of blobs: collected in every forward while observing, written by ToProto, read by
  // CopyTrainedLayersFrom. A blob that layers change in place has one range for each version: that
  // of the last carries the blob's name, an earlier one <blob>@<layer>.
  // Quantized layers take the ranges that are known when observing ends, or that a file brings.
  void set_observe(bool observe);
  // The mode of a layer's bottom_quantizer or top_quantizer is that of its blob alone, until
  // set_observe gives all blobs one mode.
  bool observe() const;
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

  void set_debug_info(bool value);
  // Of whole passes.
  const Plan& plan() const;
  // A whole forward in phase TEST does not write all blobs: some are computed within a step, and with
  // reduced_memory_inference some give their memory to others. Reading such a blob computes it, from
  // what the blobs before it hold then. Every forward writes the blobs that are named here.
  void Keep(const std::vector<std::string>& blobs);
  // Bytes of all blobs' data, and of all parameters' data.
  int64_t blob_bytes() const;
  int64_t parameter_bytes() const;
  // Known from shapes, before anything is allocated.
  MemoryNeeds memory_needs() const;

 private:
  struct Rooms;

  void Init(const NetParameter& parameter, const NetOptions& options);
  void MakePlans();
  // The observers that have something to do now, in the order of their calls.
  std::vector<PassObserver*> ActiveObservers() const;
  void ClearUnreadDiffs(const std::vector<int>& run, int first, int last);
  void TakeNewGradients(const std::vector<bool>& needed_before);
  std::vector<bool> NeededNodes() const;
  // Runs `work`; what the whole net needs is added to an error of a device that has no room.
  template <class Work> void WithNeeds(const Work& work) const;

  Device* device_ = nullptr;
  bool explicit_device_ = false;
  bool debug_info_ = false, check_finite_ = false;
  std::unique_ptr<StepState> step_state_;
  Wiring wiring_;
  std::set<std::string> kept_;  // blobs of the user
  std::unique_ptr<Rooms> rooms_;
  std::vector<PassObserver*> observers_;  // of callers
};

}  // namespace caffe
