#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/learning_rate.hpp"
#include "caffe/solver/solver.hpp"

// Snapshot writes a solver's files, Restore reads them.
namespace caffe {

std::string Solver::SnapshotName(const std::string& extension) const {
  return Concat(param_->snapshot_prefix(), "_iter_", iter_, extension);
}

void Solver::CheckSnapshotCanBeWritten() const {
  CAFFE_CHECK(param_->has_snapshot_prefix(),
              "snapshot_prefix is not set, so there is no path for "
              "snapshots; set it, or snapshot: 0 and snapshot_after_train: false");
  try {
    // Tests that the file can be written; without a commit it is removed again.
    if (param_->snapshot_format() == SolverParameter::HDF5) {
      Hdf5Writer probe(SnapshotName(".caffemodel.h5"));
    } else {
      AtomicFile probe(SnapshotName(".caffemodel"));
    }
  } catch (const Error& error) {
    CAFFE_THROW("snapshots cannot be written to ", param_->snapshot_prefix(), "_*: ", error.what());
  }
}

void Solver::Snapshot() {
  CAFFE_CHECK(param_->has_snapshot_prefix(),
              "snapshot_prefix is not set, so there is no path for "
              "snapshots");
  const bool hdf5 = param_->snapshot_format() == SolverParameter::HDF5;
  const std::string model = SnapshotName(hdf5 ? ".caffemodel.h5" : ".caffemodel");
  if (hdf5) {
    log::Info(Concat("Snapshotting to HDF5 file ", model));
    net_->SaveHDF5(model, param_->snapshot_diff());
  } else {
    log::Info(Concat("Snapshotting to binary proto file ", model));
    NetParameter net;
    net_->ToProto(&net, param_->snapshot_diff());
    WriteBinaryProto(model, net);
  }

  SolverState state;
  state.set_iter(static_cast<int>(iter_));
  state.set_learned_net(model);
  state.set_current_step(LearningRateStep(*param_, rate_policy_, iter_));
  for (const auto& blob : updater_->history()) blob->ToProto(state.add_history());
  if (updater_->adapts_loss_scale()) {
    const StepState& reals = net_->step_state();
    state.set_loss_scale(reals.Get(StepState::kLossScale));
    state.set_loss_scale_good_steps(static_cast<int>(reals.Get(StepState::kGoodSteps)));
  }
  net_->WriteRunState(state.add_net_state());
  for (const auto& net : test_nets_) net->WriteRunState(state.add_net_state());
  const std::string file = SnapshotName(hdf5 ? ".solverstate.h5" : ".solverstate");
  if (hdf5) {
    log::Info(Concat("Snapshotting solver state to HDF5 file ", file));
    WriteSolverStateHdf5(file, state);
  } else {
    log::Info(Concat("Snapshotting solver state to binary proto file ", file));
    WriteBinaryProto(file, state);
  }
  last_snapshot_ = file;
}

void Solver::Restore(const std::string& path) {
  SolverState state;
  if (path.ends_with(".h5") || IsHdf5File(path)) {
    state = ReadSolverStateHdf5(path);
  } else {
    ReadBinaryProto(path, &state);
    // A caffemodel parses as a message of unknown fields, too.
    CAFFE_CHECK(state.has_iter(), path,
                " is not a solver state: it has no iteration. A caffemodel ",
                "has none; resume from the .solverstate that was written with it, or start again ",
                "from its weights (-weights)");
  }
  const auto& history = updater_->history();
  CAFFE_CHECK(state.history_size() == static_cast<int>(history.size()), path,
              ": Incorrect length of history blobs. The file has ", state.history_size(), ", ",
              type(), " needs ", history.size());
  for (int i = 0; i < state.history_size(); ++i) {
    CAFFE_CHECK(history[i]->ShapeEquals(state.history(i)), path, ": the shape of history blob ", i,
                " is not ", history[i]->shape_string(), ", that of the ", history[i]->name());
  }
  if (state.has_learned_net()) {
    std::string weights = state.learned_net();
    if (!std::filesystem::exists(weights)) {
      // The files may come from another working directory or were moved together.
      const std::filesystem::path beside =
          std::filesystem::path(path).parent_path() / std::filesystem::path(weights).filename();
      if (std::filesystem::exists(beside)) weights = beside.string();
    }
    net_->CopyTrainedLayersFrom(weights);
  }
  // States of BVLC Caffe have no net_state: data layers then start from the first record.
  if (state.net_state_size() > 0) net_->ReadRunState(state.net_state(0));
  for (size_t i = 0; i < test_nets_.size() && static_cast<int>(i) + 1 < state.net_state_size();
       ++i) {
    test_nets_[i]->ReadRunState(state.net_state(static_cast<int>(i) + 1));
  }
  iter_ = state.iter();
  warned_of_loss_ = warned_of_skips_ = false;
  learning_rate_step_ = LearningRateStep(*param_, rate_policy_, iter_);
  log::Info(Concat(type(), "Solver: restoring history"));
  for (int i = 0; i < state.history_size(); ++i) history[i]->FromProto(state.history(i), false);
  if (updater_->adapts_loss_scale() && state.has_loss_scale()) {
    updater_->SetLossScale(state.loss_scale(), state.loss_scale_good_steps());
  }
}

}  // namespace caffe
