#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caffe/layer/step_state.hpp"
#include "caffe/memory/device_buffer.hpp"
#include "caffe/parallel/communicator.hpp"
#include "caffe/solver/parameter_arena.hpp"
#include "caffe/solver/update_rule.hpp"

namespace caffe {

class SolverParameter;

// The arithmetic of an update, on the device. In order, as in BVLC's Caffe:
//   1. g /= loss scale; if clip_gradients is set and the norm of all g exceeds it, all g are scaled
//      down to it (before they are divided by iter_size, and without decay)
//   2. g /= iter_size; g += weight_decay decay_mult w (L2), or sign(w) times it (L1)
//   3. the rule (kernels/solver/) with the rate times lr_mult; the blob's diff becomes the update
// An update does not wait for the device: the rate, Adam's correction, the norm and the loss scale
// are in StepState. With narrow gradients or a loss scale an update is skipped if a gradient is not
// finite. An adaptive loss scale is then halved, and doubled after loss_scale_window updates
// without an overflow.
class Updater {
 public:
  // The parameters move into an arena at the first step. `step_state` must outlive the updater.
  // `narrow_gradients`: some gradients are computed in a type that overflows easily, so that the
  // loss scale is adaptive unless it is set. Throws if a setting does not suit the rule.
  Updater(const SolverParameter& parameter, const LearnableParameters& learnable,
          StepState* step_state, Device* device, bool narrow_gradients);
  ~Updater();

  void ClearDiffs() { arena_.ClearDiffs(); }
  // One update with the current gradients; `iteration` counts from 0.
  void Update(double rate, int64_t iteration) {
    SetIteration(rate, iteration);
    Update();
  }
  // Gradients are sums over so many replicas, and are divided by this number, too; 1 by default.
  void SetReplicas(int replicas);
  // From now on this rank updates a share of the parameters, and gets the others from the other
  // ranks; it has the history of its share. `history()` then lies on the host, where
  // CollectHistory writes it, and TakeHistory reads it. All ranks call these.
  void ShareUpdates(Communicator* communicator);
  bool shares_updates() const { return sharing_ != nullptr; }
  void CollectHistory();
  void TakeHistory();
  // ParameterArena::Buckets.
  std::vector<GradientBucket> Buckets(int64_t bytes) const { return arena_.Buckets(bytes); }
  // Sums the gradients of the bucket over all ranks, in reduce_type where it is set.
  void Reduce(const GradientBucket& bucket, Communicator* communicator);
  // The two parts of Update: what changes between iterations, which is uploaded to StepState; and
  // the work, which is the same in each iteration.
  void SetIteration(double rate, int64_t iteration);
  void Update();
  // Later launches use this device; states move to it.
  void SetDevice(Device* device);

  // States in the order of BVLC's files: the first of every parameter, then the second of every
  // parameter.
  const std::vector<std::shared_ptr<BlobBase>>& history() const { return history_; }
  const std::string& type() const { return rule_.name; }
  bool adapts_loss_scale() const { return adapts_; }
  // Restores the adaptive loss scale of a solverstate.
  void SetLossScale(double scale, int good_steps);
  // L2 norm of the last update's gradients; needs clip_gradients, narrow gradients or a loss scale.
  // Waits for the device.
  float GradientNorm() const { return step_state_->Get(StepState::kNorm); }
  // The number of updates that were skipped because a gradient was not finite. Waits for the
  // device.
  int64_t SkippedSteps() const;
  double clip_gradients() const { return clip_; }

 private:
  struct Program {
    std::unique_ptr<Kernel> update, squares;
  };
  // The elements of a part of the arena that a rank updates: whole blocks.
  struct Share {
    int64_t begin = 0, count = 0;
  };
  Share ShareOf(const ParameterArena::Part& part, int rank) const;
  int64_t LargestShare(const ParameterArena::Part& part) const;
  void UpdatePart(size_t index);
  template <class Copy> void VisitHistory(size_t part, int state, const Copy& copy);
  // Sends the share of each rank to all.
  void GatherPart(size_t index);
  void MakePrograms();
  void Decide();

  UpdateRule rule_;
  std::vector<double> constants_;
  double beta1_, beta2_;
  double clip_, l2_ = 0, l1_ = 0, normalize_;
  int iter_size_;
  bool adapts_ = false;
  bool checks_ = false;  // whether an update is skipped if a gradient is not finite
  int window_;
  StepState* step_state_;
  Device* device_;
  ParameterArena arena_;
  std::vector<std::vector<ArenaArray>> states_;  // [part][state]; without sharing
  Communicator* sharing_ = nullptr;
  std::vector<std::vector<std::shared_ptr<BlobBase>>> share_states_;  // [part][state]
  std::unique_ptr<DeviceBuffer> pieces_;  // of all ranks, while they are sent
  std::vector<std::shared_ptr<BlobBase>> history_;
  std::vector<Program> programs_;  // [part]
  std::optional<DataType> reduce_type_;
  // Conversions to reduce_type_ and back; narrow_ holds a bucket in this type.
  struct Conversion {
    std::unique_ptr<Kernel> there, back;
  };
  std::unique_ptr<DeviceBuffer> narrow_;
  std::map<int, Conversion> conversions_;  // [part]
  std::unique_ptr<Kernel> decide_;
  std::unique_ptr<Blob<float>> squares_;  // partial sums
};

}  // namespace caffe
