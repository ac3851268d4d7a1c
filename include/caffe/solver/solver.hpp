#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caffe/net/net.hpp"
#include "caffe/net/replicas.hpp"
#include "caffe/solver/learning_rate.hpp"
#include "caffe/solver/loss_window.hpp"
#include "caffe/solver/solver_action.hpp"
#include "caffe/solver/updater.hpp"

namespace caffe {

class NetParameter;
class SolverParameter;

// Trains a net. One iteration, in BVLC's order: clear gradients; test if it is due; forward and
// backward iter_size times; display; update; snapshot if it is due. Apart from display, test and
// snapshot an iteration only enqueues work. Errors are exceptions; existing files stay unchanged.
class Solver {
 public:
  class Callback {
   public:
    virtual ~Callback() = default;
    // Before the forward of an iteration; may throw to end training.
    virtual void OnStart() {}
    // After backward, before the update: gradients can be reduced between processes here.
    virtual void OnGradientsReady() {}
    // Whether OnGradientsReady does something now. If no callback looks at gradients, the update
    // follows backward without a pause.
    virtual bool looks_at_gradients() const { return true; }
    // After a forward of a test net.
    virtual void OnTest(int test_net, int done, int of) {}
  };

  // `device` null: the thread's default device, which the nets follow. Reads the nets and the
  // weights that the parameter names. `python_layers`: that of NetOptions.
  explicit Solver(const SolverParameter& parameter, Device* device = nullptr,
                  bool python_layers = true);
  // From a prototxt.
  explicit Solver(const std::string& path, Device* device = nullptr, bool python_layers = true);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Whether the passes of an iteration free activations and gradients after their last use, as
  // `caffe train` does. The trained net then has no values for most blobs after an iteration; by
  // default it keeps them, because scripts read them.
  void set_frees_memory(bool value) { frees_memory_ = value; }
  bool frees_memory() const { return frees_memory_; }

  // From the current iteration, or that of the solverstate `resume`, to max_iter, including the
  // final snapshot and test.
  void Solve(const std::string& resume = "");
  void Step(int64_t iterations);
  // Step of several solvers by one thread, each with a communicator of its own: in each iteration
  // the passes of all of them are one list of actions. They are at the same iteration, have the
  // same iter_size, and train on one device.
  static void StepTogether(const std::vector<Solver*>& replicas, int64_t iterations);
  // From now on, gradients are summed over all ranks before callbacks, clipping and the update see
  // them, and an update divides them by iter_size times the number of ranks. Buckets of at least
  // `bucket_bytes` are summed while the backward pass goes on. Parameters become those of rank 0.
  // Throws if the net, the settings, the seeds or the data are not those of rank 0. The
  // communicator must outlive the solver. The net becomes the replica of that rank, see
  // Net::SetReplica. Ranks share the batches of a test out. Losses and outputs in the log are means
  // over all ranks; rank 0 answers requests and writes the snapshots of Step and Solve.
  void SetCommunicator(Communicator* communicator, int64_t bucket_bytes = kBucketBytes);
  static constexpr int64_t kBucketBytes = int64_t{4} << 20;
  // The last part of an iteration: updates the parameters by the gradients in their diffs, and
  // increments the iteration.
  void ApplyUpdate();
  // Reads a solverstate and the weights that were written with it: the file of their name next to
  // the solverstate, else the path that the solverstate has. Throws if the files are of two
  // snapshots (weights_id). After an error nothing has changed.
  void Restore(const std::string& path);
  // Writes <prefix>_iter_<iteration>.caffemodel and .solverstate. Both are complete before either
  // gets its name; after an error neither is left, and older files of these names are. With
  // shard_updates all ranks call this, and rank 0 writes.
  void Snapshot();
  // The solverstate of the last Snapshot or Restore, and its iteration; empty and -1 if there was
  // none.
  const std::string& last_snapshot() const { return last_snapshot_; }
  int64_t last_snapshot_iter() const { return last_snapshot_iter_; }
  // Says how to resume from a solverstate, for the messages about a snapshot that was not written.
  void SetResumeLine(std::function<std::string(const std::string& state)> line) {
    resume_line_ = std::move(line);
  }
  void TestAll();
  // Means over test_iter batches of the elements of all output blobs, logged as well. Empty if
  // interrupted.
  std::vector<double> Test(int test_net);

  Net* net() { return net_.get(); }
  const std::vector<std::unique_ptr<Net>>& test_nets() const { return test_nets_; }
  Updater& updater() { return *updater_; }
  int64_t iter() const { return iter_; }
  const SolverParameter& param() const { return *param_; }
  // The rule's name, for example "SGD".
  const std::string& type() const { return updater_->type(); }
  // Mean loss of the last average_loss iterations of this Step. Waits for the device. Warns once if
  // it is not finite, and once if a constant loss scale made gradients overflow.
  double SmoothedLoss();
  // Learning rate of the current iteration.
  double Rate() const;

  void AddCallback(Callback* callback) { callbacks_.push_back(callback); }
  // The function is called in every iteration.
  void SetActionFunction(ActionFunction function) { action_ = std::move(function); }

  // Bytes of the history of the update rule.
  int64_t history_bytes() const;

 private:
  bool frees_memory_ = false;
  bool python_layers_ = true;
  void Init(Device* device);
  void SolveAll(const std::string& resume);
  void InitTrainNet(Device* device);
  void InitTestNets(Device* device);
  void MakeTestNet(const NetParameter& net, const std::string& source, Device* device,
                   const LayerLines& lines = {});
  NetOptions OptionsFor(Device* device) const;
  void ApplyDefaults(NetParameter* net) const;
  static void Iterate(std::span<Solver* const> replicas, int64_t iterations);
  // Begins several steps; returns the bytes of the history that are not allocated yet.
  int64_t BeginSteps(int64_t iterations);
  // Returns false if a test was interrupted.
  bool BeginIteration();
  // The passes of an iteration of all replicas, and their updates if these follow at once.
  static void RunPasses(std::span<Solver* const> replicas, bool at_once);
  // Returns true if training is to stop.
  bool EndIteration(bool at_once);
  bool DisplaysNow() const;
  // Whether the update is recorded with the passes: nothing reads what is between them.
  bool UpdatesAtOnce() const;
  // Uploads what changes between updates, such as the rate.
  void PrepareUpdate();
  // The tail of the net.
  void RunUpdate();
  // Counts the iteration, and logs what its update did.
  void FinishUpdate();
  void Display();
  void DisplayUpdate();
  void CheckNumbers(double loss);
  int rank() const { return communicator_ ? communicator_->rank() : 0; }
  int ranks() const { return communicator_ ? communicator_->size() : 1; }
  // The items of an update, of all ranks.
  int64_t JointBatch() const;
  // Means over all ranks.
  std::vector<double> JointMeans(const std::vector<double>& own) const;
  // Parameters of all ranks become those of rank 0: all, or those that no update changes, such as
  // statistics.
  void TakeParametersOfRank0(bool all);
  // The request of rank 0.
  SolverAction NextRequest();
  // All ranks know the last snapshot of rank 0.
  void ShareSnapshot();
  // Runs `work`; if it throws, the calls of the other ranks end.
  void TellingRanks(const std::function<void()>& work);
  void WarnOfLostScores(const Net& net);
  // Handles requests; returns true if training is to stop.
  bool AnswerRequests();
  std::string SnapshotName(int64_t iteration, const std::string& extension) const;
  void CheckSnapshotCanBeWritten() const;
  // Throws if Restore would not find the net's layers in the file.
  void CheckSnapshotCanBeRead() const;
  // Snapshot between iterations: an error is a warning, and the next snapshot is the next attempt.
  void TrySnapshot();
  // Snapshot at the end; its error says how to resume from an earlier one.
  void LastSnapshot();
  std::string HowToResume() const;
  void ReadInitialWeights();

  std::unique_ptr<SolverParameter> param_;
  std::unique_ptr<Net> net_;
  std::unique_ptr<Replicas> replicas_;  // with which this solver, the first one, stepped last
  std::vector<std::unique_ptr<Net>> test_nets_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<LossWindow> losses_;
  std::vector<Callback*> callbacks_;
  ActionFunction action_;
  std::string last_snapshot_;
  int64_t last_snapshot_iter_ = -1;
  int64_t failed_snapshot_iter_ = -1;  // of the last TrySnapshot that failed
  std::function<std::string(const std::string& state)> resume_line_;
  Communicator* communicator_ = nullptr;
  bool reduces_ = false;  // gradients may still be in use by the communicator
  bool stop_ = false;
  int64_t iter_ = 0;
  RatePolicy rate_policy_ = RatePolicy::kFixed;
  int learning_rate_step_ = 0;
  int64_t displayed_iter_ = 0, displayed_skips_ = 0;
  bool warned_of_loss_ = false, warned_of_skips_ = false, warned_of_scores_ = false;
  std::chrono::steady_clock::time_point displayed_at_;
};

}  // namespace caffe
