#include <cmath>
#include <filesystem>
#include <optional>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/weights_file.hpp"
#include "caffe/solver/learning_rate.hpp"
#include "caffe/solver/solver.hpp"

// Snapshot writes a solver's files, Restore reads them.
namespace caffe {

std::string Solver::SnapshotName(int64_t iteration, const std::string& extension) const {
  return Concat(param_->snapshot_prefix(), "_iter_", iteration, extension);
}

void Solver::CheckSnapshotCanBeWritten() const {
  CAFFE_CHECK(param_->has_snapshot_prefix(),
              "snapshot_prefix is not set, so there is no path for "
              "snapshots; set it, or snapshot: 0 and snapshot_after_train: false");
  try {
    // Tests that the file of the longest name can be written; without a commit it is removed again.
    if (param_->snapshot_format() == SolverParameter::HDF5) {
      Hdf5Writer probe(SnapshotName(INT32_MAX, ".solverstate.h5"));
    } else {
      AtomicFile probe(SnapshotName(INT32_MAX, ".solverstate"));
    }
  } catch (const Error& error) {
    CAFFE_THROW("snapshots cannot be written to ", param_->snapshot_prefix(), "_*: ", error.what());
  }
}

void Solver::CheckSnapshotCanBeRead() const {
  if (param_->snapshot_format() != SolverParameter::HDF5) return;
  try {
    net_->CheckHdf5Names();
  } catch (const Error& error) {
    CAFFE_THROW("a snapshot in HDF5 could not be read back: ", error.what());
  }
}

namespace {

// A file of either format that is not committed yet.
class SnapshotFile {
 public:
  SnapshotFile(const std::string& path, bool hdf5) {
    if (hdf5) {
      hdf5_.emplace(path);
    } else {
      binary_.emplace(path);
    }
  }
  void Write(const NetParameter& net) {
    hdf5_ ? WriteNetHdf5(net, &*hdf5_) : WriteBinaryProto(net, &*binary_);
  }
  void Write(const SolverState& state) {
    hdf5_ ? WriteSolverStateHdf5(state, &*hdf5_) : WriteBinaryProto(state, &*binary_);
  }
  AtomicFile* Finish() {
    if (hdf5_) return hdf5_->Finish();
    binary_->Finish();
    return &*binary_;
  }

 private:
  std::optional<Hdf5Writer> hdf5_;
  std::optional<AtomicFile> binary_;
};

}  // namespace

void Solver::Snapshot() {
  CAFFE_CHECK(param_->has_snapshot_prefix(),
              "snapshot_prefix is not set, so there is no path for "
              "snapshots");
  if (updater_->shares_updates()) {
    updater_->CollectHistory();
    if (rank() != 0) return;
  }
  const bool hdf5 = param_->snapshot_format() == SolverParameter::HDF5;
  const char* const format = hdf5 ? "HDF5" : "binary proto";
  const std::string model = SnapshotName(iter_, hdf5 ? ".caffemodel.h5" : ".caffemodel");
  const std::string file = SnapshotName(iter_, hdf5 ? ".solverstate.h5" : ".solverstate");
  log::Info(Concat("Snapshotting to ", format, " file ", model));
  const std::string weights_id = net_->WeightsId();
  SnapshotFile model_file(model, hdf5), state_file(file, hdf5);
  {
    NetParameter net;
    hdf5 ? net_->ToHDF5(&net, param_->snapshot_diff())
         : net_->ToProto(&net, param_->snapshot_diff());
    net.set_weights_id(weights_id);
    model_file.Write(net);
  }

  SolverState state;
  state.set_iter(static_cast<int>(iter_));
  state.set_learned_net(model);
  state.set_weights_id(weights_id);
  state.set_joint_batch(JointBatch());
  state.set_current_step(LearningRateStep(*param_, rate_policy_, iter_));
  for (const auto& blob : updater_->history()) blob->ToProto(state.add_history());
  if (updater_->adapts_loss_scale()) {
    const StepState& reals = net_->step_state();
    state.set_loss_scale(reals.Get(StepState::kLossScale));
    state.set_loss_scale_good_steps(static_cast<int>(reals.Get(StepState::kGoodSteps)));
  }
  net_->WriteRunState(state.add_net_state());
  for (const auto& net : test_nets_) net->WriteRunState(state.add_net_state());
  log::Info(Concat("Snapshotting solver state to ", format, " file ", file));
  state_file.Write(state);
  AtomicFile::CommitTogether({model_file.Finish(), state_file.Finish()});
  last_snapshot_ = file;
  last_snapshot_iter_ = iter_;
}

std::string Solver::HowToResume() const {
  if (last_snapshot_.empty()) return "; there is no earlier snapshot to resume from";
  return Concat("; the last whole snapshot is that of iteration ", last_snapshot_iter_,
                ". To resume from it: ",
                resume_line_ ? resume_line_(last_snapshot_) : "-snapshot " + last_snapshot_);
}

void Solver::ShareSnapshot() {
  if (ranks() == 1) return;
  last_snapshot_ = communicator_->Broadcast(last_snapshot_);
  last_snapshot_iter_ = std::stoll(communicator_->Broadcast(Concat(last_snapshot_iter_)));
  failed_snapshot_iter_ = std::stoll(communicator_->Broadcast(Concat(failed_snapshot_iter_)));
  communicator_->SetLastWords(HowToResume());
}

void Solver::TrySnapshot() {
  try {
    if (rank() == 0 || updater_->shares_updates()) Snapshot();
  } catch (const Error& error) {
    failed_snapshot_iter_ = iter_;
    log::Warning(Concat("Iteration ", iter_,
                        ": training continues without a snapshot: ", error.what(), HowToResume()));
  }
  ShareSnapshot();
}

void Solver::LastSnapshot() {
  try {
    if (rank() == 0 || updater_->shares_updates()) Snapshot();
    ShareSnapshot();
  } catch (const RankFailure&) {
    throw;
  } catch (const Error& error) {
    CAFFE_THROW("the snapshot of iteration ", iter_, " was not written: ", error.what(),
                HowToResume());
  }
}

namespace {

// Throws unless the blob of a file can be copied to `target`.
void CheckHistory(const std::string& path, int index, const BlobBase& target,
                  const BlobProto& source) {
  CAFFE_CHECK(target.ShapeEquals(source), path, ": the shape of history blob ", index, " is not ",
              target.shape_string(), ", that of the ", target.name());
  const bool floats = source.double_data_size() == 0 && !source.has_packed_data() &&
                      source.diff_size() == 0 && source.double_diff_size() == 0 &&
                      !source.has_packed_diff();
  if (floats && source.data_size() == target.count()) return;
  try {
    MakeBlob(target.type(), Runtime::Get().cpu(), target.shape(), target.name())
        ->FromProto(source, false);
  } catch (const Error& error) {
    CAFFE_THROW(path, ": history blob ", index, ": ", error.what());
  }
}

// The files that may have the weights of a state, best first: the file next to the state, since
// both may have been copied or moved together; then the path that the state has.
std::vector<std::string> WeightsOf(const std::string& path, const SolverState& state) {
  namespace fs = std::filesystem;
  const std::string& stored = state.learned_net();
  const fs::path beside = fs::path(path).parent_path() / fs::path(stored).filename();
  std::vector<std::string> files;
  std::error_code error;
  if (fs::exists(beside, error)) files.push_back(beside.string());
  if (files.empty() || (fs::exists(stored, error) && !fs::equivalent(stored, beside, error))) {
    files.push_back(stored);
  }
  return files;
}

// The identity in a file of weights; empty if it has none.
std::string WeightsIdIn(const std::string& path) {
  return IsHdf5File(path) ? ReadWeightsIdHdf5(path) : WeightsFile(path).net().weights_id();
}

// The file with the weights that were written with the state.
std::string FindWeights(const std::string& path, const SolverState& state) {
  const std::vector<std::string> files = WeightsOf(path, state);
  if (!state.has_weights_id()) return files.front();  // of BVLC Caffe, or of an earlier version
  for (const std::string& file : files) {
    if (WeightsIdIn(file) == state.weights_id()) return file;
  }
  std::string names;
  for (const std::string& file : files) names += (names.empty() ? "" : " and ") + file;
  CAFFE_THROW(path, " and ", names, " were not written together: the weights are of another ",
              "snapshot. Another training with this snapshot_prefix, a training that was killed ",
              "while it wrote, or a copy has replaced one of the files. Put the weights of this "
              "state next to it, resume from another snapshot, or start from the weights alone "
              "(-weights; Python: solver.net.copy_from)");
}

}  // namespace

void Solver::Restore(const std::string& path) {
  const auto& history = updater_->history();
  // Only values that fit are read; CheckHistory reports other shapes.
  const auto wants = [&](const std::string&, int index, const Shape& shape) {
    return index < static_cast<int>(history.size()) && history[index]->shape() == shape;
  };
  SolverState state;
  if (path.ends_with(".h5") || IsHdf5File(path)) {
    state = ReadSolverStateHdf5(path, wants);
  } else {
    ReadBinaryProto(path, &state);
    // A caffemodel parses as a message of unknown fields, too.
    CAFFE_CHECK(state.has_iter(), path,
                " is not a solver state: it has no iteration. A caffemodel ",
                "has none; resume from the .solverstate that was written with it, or start again ",
                "from its weights (-weights)");
  }
  CAFFE_CHECK(state.history_size() == static_cast<int>(history.size()), path,
              ": Incorrect length of history blobs. The file has ", state.history_size(), ", ",
              type(), " needs ", history.size());
  for (int i = 0; i < state.history_size(); ++i) {
    CheckHistory(path, i, *history[i], state.history(i));
  }
  CAFFE_CHECK(state.iter() >= 0, path, ": the iteration is ", state.iter(),
              "; the file is damaged");
  const auto loss_scale = static_cast<float>(state.loss_scale());  // as the updater has it
  CAFFE_CHECK(!state.has_loss_scale() ||
                  (std::isfinite(loss_scale) && loss_scale > 0 && std::isfinite(1 / loss_scale)),
              path, ": the loss scale is ", state.loss_scale());
  CAFFE_CHECK(state.loss_scale_good_steps() >= 0, path, ": loss_scale_good_steps is ",
              state.loss_scale_good_steps());
  const std::string weights = state.has_learned_net() ? FindWeights(path, state) : "";

  // All that can fail from here on fails before it changes weights; run states are put back.
  std::vector<Net*> nets = {net_.get()};
  for (const auto& net : test_nets_) nets.push_back(net.get());
  std::vector<NetRunState> before(nets.size());
  for (size_t i = 0; i < nets.size(); ++i) nets[i]->WriteRunState(&before[i]);
  try {
    // States of BVLC Caffe have no net_state: data layers then start from the first record.
    for (size_t i = 0; i < nets.size() && static_cast<int>(i) < state.net_state_size(); ++i) {
      nets[i]->ReadRunState(state.net_state(static_cast<int>(i)));
    }
    if (!weights.empty()) {
      WeightsOptions options;
      options.missing = MissingWeights::kRefuse;
      options.whole = true;
      net_->CopyTrainedLayersFrom(weights, options);
    }
  } catch (...) {
    for (size_t i = 0; i < nets.size(); ++i) nets[i]->ReadRunState(before[i]);
    throw;
  }
  iter_ = state.iter();
  if (state.has_joint_batch() && state.joint_batch() != JointBatch()) {
    log::Warning(Concat(path, ": an update was by ", state.joint_batch(), " items, and is by ",
                        JointBatch(), " from now on (batch size times iter_size times ranks); ",
                        "base_lr may need another value"));
  }
  last_snapshot_ = path;
  last_snapshot_iter_ = iter_;
  failed_snapshot_iter_ = -1;
  warned_of_loss_ = warned_of_skips_ = false;
  learning_rate_step_ = LearningRateStep(*param_, rate_policy_, iter_);
  log::Info(Concat(type(), "Solver: restoring history"));
  for (int i = 0; i < state.history_size(); ++i) history[i]->FromProto(state.history(i), false);
  if (updater_->shares_updates()) updater_->TakeHistory();
  if (updater_->adapts_loss_scale() && state.has_loss_scale()) {
    updater_->SetLossScale(state.loss_scale(), state.loss_scale_good_steps());
  }
}

}  // namespace caffe
