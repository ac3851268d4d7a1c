#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caffe/layer/layer_types.hpp"
#include "caffe/layer/step_state.hpp"
#include "caffe/net/memory_needs.hpp"
#include "caffe/net/training_tail.hpp"
#include "caffe/net/wiring.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

class LostBlobs;
class NetRunState;
class PassObserver;
class Plans;
struct Histogram;
struct Plan;
struct StepInfo;

enum QuantizerMode : int;

struct NetOptions {
  // Null: the calling thread's default device; each forward moves the net to the current one.
  Device* device = nullptr;
  int phase = -1;  // -1: the phase of the parameter's state, TEST by default
  int level = 0;
  std::vector<std::string> stages;
  // Seed of fillers, of the order of data, and of random numbers, see LayerContext; negative: a new
  // random one.
  int64_t seed = -1;
  // False: a layer of type Python, also of a nested net, is an error, and no module is imported.
  bool python_layers = true;
  // The lines of the layers in the net's file, for errors (ReadNetFile).
  LayerLines lines;
};

// The reaction of a copy of weights to a layer of the net whose parameters the source does not
// have: the layer keeps its values. kRefuse throws, before anything has changed, and it also
// refuses parameters that no layer takes.
enum class MissingWeights { kAllow, kWarn, kRefuse };

struct WeightsOptions {
  MissingWeights missing = MissingWeights::kWarn;
  // Aligned arrays that are used as the file stores them are not copied: see WeightsFile::Map. Such
  // a file must not be changed or truncated while the net exists.
  bool map = false;
  // The files are a snapshot: they are read whole before anything changes, so that a file that
  // cannot be read changes nothing, and ranges that were observed earlier are forgotten.
  bool whole = false;
};

// Ordered layers and named blobs: the façade of src/caffe/net. NetBuilder makes the Wiring from a
// NetParameter through the passes of graph/; an Executor runs a Plan of steps. There are two plans:
// one for whole passes, whose steps may cover several layers, and one that runs layer by layer, for
// partial passes and for observers of every layer.
//
// Split and cast layers added by the passes are invisible in layers(), blobs(), Forward(start, end)
// and ToProto. So are earlier versions of a blob for which SeparateInPlace made separate blobs:
// blobs() has the last version, which partial passes read and write.
//
// Used by one thread at a time. Throws with the names of layer and blob for an invalid net. Until
// shapes change, Forward and Backward only enqueue work.
class Net {
 public:
  explicit Net(const NetParameter& parameter, const NetOptions& options = {});
  // From a prototxt.
  Net(const std::string& path, const NetOptions& options);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  void Forward();
  // Runs the layers [start, end], by their indices in layers(). They read the current content of
  // their bottoms, also through casts.
  void Forward(int start, int end);
  // Starts from the weights of the losses. If the caller wrote another diff to a loss, that is used
  // instead, unless the loss scale is not 1. In phase TEST the first Backward repeats the layers
  // that were computed together with others, and the net computes layer by layer from then on.
  void Backward();
  // Forward and Backward. On devices that can record work, these calls replay graphs instead, as
  // far as layers allow it.
  void ForwardBackward();
  // ForwardBackward with the reductions of the tail, then RunTail; the graph contains all of them.
  // `end`: how far it goes.
  void Iterate(IterationEnd end = IterationEnd::kTail);
  // From now on the net is this replica of those that train together. In phase TRAIN its data
  // layers read every `ranks`-th item of their common order, from item `rank` on; its random
  // numbers are its own. Replicas must be made with one seed, so that initial values and orders are
  // equal.
  void SetReplica(const Replica& replica);
  // Sets the work that a solver adds to the passes of an iteration.
  void SetTrainingTail(TrainingTail tail);
  // Runs the entries of the tail.
  void RunTail();
  // Runs backward from layer start down to layer end (inclusive), from the current diffs of the
  // tops of start (for losses among these layers as above) to the diffs of the bottoms of end.
  void Backward(int start, int end);
  // With true, a whole Forward in phase TRAIN and the whole Backward after it share one arena: data
  // and diffs are freed when no layer needs them any more, and layers with `recompute: true` run
  // again in Backward. Observers of every layer switch this off. Afterwards data that was freed are
  // computed when they are read, as long as the parameters are the same; reading a diff that was
  // freed is an error. Keep excludes blobs. Solvers set this while they train.
  void set_frees_memory(bool value);
  void ClearParamDiffs();
  // Requests that Backward also computes the gradients of these blobs. If the last forward did not
  // keep the data for them, the layers concerned run again, with the same random numbers. Throws,
  // with the reason, if a blob has no gradient.
  void RequestGradients(const std::vector<std::string>& blobs);
  // The same for those of the blobs that have a gradient; returns their names. Throws if none of
  // them has one and Backward would compute nothing.
  std::vector<std::string> RequestGradientsWhereKnown(const std::vector<std::string>& blobs);
  // Throws if backpropagation would have to pass through a quantized layer; the message names the
  // first.
  void CheckTrainable() const;
  // Computes the shapes of all blobs from those of the inputs.
  void Reshape();
  // The weighted sum of all losses of the last forward, read from the device. If it is not finite,
  // calls CheckData.
  float Loss();
  // Throws if a layer read invalid data in a forward since the last call, such as a label that is
  // not a class. On the CPU Forward throws at once. On a device it does not wait; the tops of the
  // layer are NaN until this is called, and the gradient of such items is 0.
  void CheckData();

  const std::string& name() const { return wiring_.name; }
  Phase phase() const { return wiring_.phase; }
  Device* device() const { return device_; }
  // Moves layers, blobs and parameters to another device.
  void SetDevice(Device* device);
  // Moves to the calling thread's default device; every forward starts with this. A net with an
  // explicit device does not move.
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
  // Loss weights of blobs().
  const std::vector<float>& blob_loss_weights() const { return wiring_.loss_weights; }

  // All parameters in the order of their layers, with repetitions of shared ones.
  const std::vector<std::shared_ptr<BlobBase>>& params() const { return wiring_.parameters; }
  // The parameters without repetitions, and their multipliers.
  const std::vector<BlobBase*>& learnable_params() const { return wiring_.learnable; }
  const std::vector<float>& params_lr() const { return wiring_.lr_mult; }
  const std::vector<float>& params_weight_decay() const { return wiring_.decay_mult; }

  StepState& step_state() { return *step_state_; }
  // True if a blob narrower than float has a gradient: then loss scaling is useful.
  bool has_narrow_gradients() const;

  // Shares the parameters of the other net's layers of the same names: one memory.
  void ShareTrainedLayersWith(const Net& other);
  // Copies parameters to the layers of the same names, and reads ranges. Throws before anything has
  // changed if they do not fit. Returns the layers that have parameters and got none, by their
  // indices in layers().
  std::vector<int> CopyTrainedLayersFrom(const NetParameter& trained,
                                         MissingWeights missing = MissingWeights::kWarn);
  // Reads a caffemodel or an HDF5 file, or several: later ones replace weights of earlier ones, and
  // all together are what layers get. A path may hold any character; FilesInList splits lists.
  std::vector<int> CopyTrainedLayersFrom(const std::string& path,
                                         const WeightsOptions& options = {});
  std::vector<int> CopyTrainedLayersFrom(const std::vector<std::string>& paths,
                                         const WeightsOptions& options = {});
  void ToProto(NetParameter* parameter, bool write_diff = false) const;
  // Writes weights as HDF5 in BVLC's layout. CopyTrainedLayersFrom reads such files, too.
  // Throws CheckHdf5Names' error.
  void SaveHDF5(const std::string& path, bool write_diff = false) const;
  std::vector<int> LoadHDF5(const std::string& path, const WeightsOptions& options = {});
  // SaveHDF5 in two parts.
  void ToHDF5(NetParameter* parameter, bool write_diff = false) const;
  // Throws if an HDF5 file could not be read back, because of the names of layers.
  void CheckHdf5Names() const;
  // A hash of the values of all parameters.
  std::string WeightsId() const;

  // The state that a run needs to continue exactly, besides parameters: positions in data, seeds,
  // counters. Layers are found by name, those of one name in their order; a layer that the state
  // does not contain is not changed.
  void WriteRunState(NetRunState* state) const;
  void ReadRunState(const NetRunState& state);

  using Callback = std::function<void(int layer)>;
  // Called with the index of a layer in layers(). Nets with callbacks run layer by layer.
  void set_before_forward(Callback callback);
  void set_after_forward(Callback callback);
  void set_before_backward(Callback callback);
  void set_after_backward(Callback callback);
  // Calls the observer for every layer that runs, until it is removed.
  void AddObserver(PassObserver* observer);
  void RemoveObserver(PassObserver* observer);

  // Called between the steps of Forward and Backward; may throw to end them (Ctrl-C).
  void set_interruption(std::function<void()> check);

  // Ranges of blobs: collected in every forward while observing, written by ToProto, read by
  // CopyTrainedLayersFrom. A blob that layers change in place has one range for each version: the
  // last version has the blob's name, an earlier one is <blob>@<layer>; if several layers are
  // called <layer>, that of the second one is <blob>@<layer>#2. Quantized layers use the ranges
  // known when observing ends, or those of a file.
  void set_observe(bool observe);
  // The mode of a layer's bottom_quantizer or top_quantizer applies to its blob only, until
  // set_observe or set_quantizer_mode sets one mode for all blobs.
  bool observe() const;
  // The mode of all quantizers: passive; observe, as above; pseudo. In mode pseudo each blob and
  // each weight has the value of the code that an integer net would have, in float, and gradients
  // pass through where no code is clamped. A forward in phase TRAIN moves the ranges
  // (PseudoQuantizer:: kRate), except those that a calibration method chose by clipping.
  void set_quantizer_mode(QuantizerMode mode);
  QuantizerMode quantizer_mode() const;
  // The type of the codes: quant8 or quant16.
  void set_pseudo_type(DataType type);
  DataType pseudo_type() const;
  // Quantizers have the names of ranges; <layer>_blobs_0_quant is that of a layer's weights.
  std::vector<std::string> quantizers() const;
  void SetQuantizerMode(const std::string& quantizer, QuantizerMode mode);
  QuantizerMode QuantizerModeOf(const std::string& quantizer) const;
  void SetPseudoType(const std::string& quantizer, DataType type);
  DataType PseudoTypeOf(const std::string& quantizer) const;
  // Whether any quantizer has mode pseudo.
  bool is_pseudo() const;
  // Takes the ranges that another net has now.
  void CopyRangesFrom(const Net& other);
  std::map<std::string, Range> Ranges() const;
  // The names that ranges of this net's blobs may have.
  std::vector<std::string> RangeNames() const { return wiring_.RangeNames(); }
  // The names of ranges that are chosen together: Wiring::TiedRanges.
  std::vector<std::pair<std::string, std::string>> TiedRanges() const {
    return wiring_.TiedRanges();
  }
  // The values that were observed, by the same names; waits for the device.
  std::map<std::string, Histogram> Histograms() const;
  // Sets the ranges of quantized blobs from a file or from observing, as the next forward would,
  // for callers that read or write codes before it.
  void UpdateBlobRanges();
  // Whether a quantized blob has no range, so that a forward is an error.
  bool lacks_ranges();
  // Sets the range [-1, 1] for quantized blobs without a range: for tests of layers.
  void UsePlaceholderRanges();

  // For an input that layers change in place: the blob with what the caller wrote, in its type and
  // with its range; null for other blobs. After it was written, call NoteFirstVersion.
  BlobBase* FirstVersion(const BlobBase& input);
  void NoteFirstVersion(const BlobBase& input);
  // Call this after a view of such an input was written. The next forward finds out by itself only
  // if the content has changed.
  void NoteWritten(const BlobBase& input);
  // Brings the host copies of all blobs with live views up to date.
  void SyncViews();
  // Marks the data of live views as written, as Forward does. Call this between two calls of the
  // net if other code reads the device's copies.
  void TakeViews();

  void set_debug_info(bool value);
  // The plan of whole passes.
  const Plan& plan() const;
  // Facts and costs of each step of a whole forward, for the current shapes. Prepares the steps as
  // Forward does, so that quantized layers need ranges, but computes no blob.
  std::vector<StepInfo> Steps();
  // A whole forward in phase TEST does not write all blobs: some are computed within a step, and
  // the memory of some is reused, unless reduced_memory_inference is false. Reading such a blob
  // computes it as the last forward would have, also if inputs or parameters have changed since:
  // they are copied before they change. Where that is not possible, reading is an error. Every
  // forward, also one of a solver, stores the blobs named here, and a solver's backward their
  // diffs.
  void Keep(const std::vector<std::string>& blobs);
  // With true: inputs and parameters change now, and a whole Forward follows before any blob is
  // read. So nothing is copied for reads in between, which are errors if they need what has
  // changed.
  void ExpectForward(bool yes);
  // Bytes of all blobs' data, and of all parameters' data.
  int64_t blob_bytes() const;
  int64_t parameter_bytes() const;
  // Computed from shapes, before anything is allocated.
  MemoryNeeds memory_needs() const;

 private:
  friend class Replicas;
  struct Rooms;

  void Init(const NetParameter& parameter, const NetOptions& options);
  Plans& plans() const;
  LostBlobs& lost() const;

  Device* device_ = nullptr;
  bool explicit_device_ = false;
  std::unique_ptr<StepState> step_state_;
  Wiring wiring_;
  std::unique_ptr<Rooms> rooms_;
};

}  // namespace caffe
