#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/step_state.hpp"
#include "caffe/solver/parameter_arena.hpp"
#include "caffe/solver/update_rule.hpp"

namespace caffe {

class SolverParameter;

// The arithmetic of an update, on the device. In order, as in BVLC's Caffe:
//   1. g /= loss scale; if clip_gradients is set and the norm of all g exceeds it, all g are scaled
//      down to it (before they are divided by iter_size, and without decay)
//   2. g /= iter_size; g += weight_decay decay_mult w (L2), or sign(w) times it (L1)
//   3. the rule (kernels/solver/) with the rate times lr_mult; the blob's diff becomes the step
// Nothing waits for the device: the rate, Adam's correction, the norm and the loss scale live in
// StepState. With narrow gradients or a loss scale a step is left out if a gradient is not finite. A
// loss scale that adapts is then halved, and doubled after loss_scale_window steps without that.
class Updater {
 public:
  // The parameters move into an arena at the first step. `step_state` outlives this. `narrow_gradients`: some are
  // computed in a type that overflows easily, so that the loss scale adapts unless it is set.
  // Throws if a setting does not suit the rule.
  Updater(const SolverParameter& parameter, const LearnableParameters& learnable,
          StepState* step_state, Device* device, bool narrow_gradients);
  ~Updater();

  void ClearDiffs() { arena_.ClearDiffs(); }
  // One step with the gradients that are there; `iteration` counts from 0.
  void Update(double rate, int64_t iteration);
  // Launches since then go to this device; states move with it.
  void SetDevice(Device* device);

  // States as BVLC's files list them: the first of every parameter, then the second of every
  // parameter.
  const std::vector<std::shared_ptr<BlobBase>>& history() const { return history_; }
  const std::string& type() const { return rule_.name; }
  bool adapts_loss_scale() const { return adapts_; }
  // Restores what a solverstate says of the adapting loss scale.
  void SetLossScale(double scale, int good_steps);
  // L2 norm of the last step's gradients; needs clip_gradients, narrow gradients or a loss scale.
  // Waits.
  float GradientNorm() const { return step_state_->Get(StepState::kNorm); }
  // Steps that were left out because a gradient was not finite. Waits.
  int64_t SkippedSteps() const;
  double clip_gradients() const { return clip_; }

 private:
  struct Program {
    std::unique_ptr<Kernel> update, squares;
  };
  void MakePrograms();
  void Decide();

  UpdateRule rule_;
  std::vector<double> constants_;
  double beta1_, beta2_;
  double clip_, l2_ = 0, l1_ = 0, normalize_;
  bool adapts_ = false;
  bool checks_ = false;  // whether a step is left out if a gradient is not finite
  int window_;
  StepState* step_state_;
  Device* device_;
  ParameterArena arena_;
  std::vector<std::vector<ArenaArray>> states_;  // [part][state]
  std::vector<std::shared_ptr<BlobBase>> history_;
  std::vector<Program> programs_;  // [part]
  std::unique_ptr<Kernel> sums_, decide_;
  std::unique_ptr<Blob<float>> squares_;  // partial sums, and behind them sums of these
};

}  // namespace caffe
