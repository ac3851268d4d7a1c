#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "tools/command_process.hpp"

// `caffe train` that writes a snapshot in every iteration and is killed, again and again.
namespace caffe {
namespace {

using std::chrono::milliseconds;

constexpr int kRounds = 12, kMostRounds = 60, kKillsInWrites = 3;

class KilledTrainingTest : public testing::TestWithParam<SolverParameter::SnapshotFormat> {
 protected:
  void SetUp() override {
    MakeDatabase(folder_ / "records", 22, 2, 9, 9);
    std::filesystem::create_directories(folder_.path() / "files");
  }

  bool hdf5() const { return GetParam() == SolverParameter::HDF5; }
  std::string Prefix(const std::string& name) const { return folder_ / ("files/" + name); }
  std::string NameOf(const std::string& name, int64_t iter, const std::string& extension) const {
    return Concat(Prefix(name), "_iter_", iter, extension, hdf5() ? ".h5" : "");
  }

  SolverParameter Parameter(const std::string& name, int max_iter, int snapshot) const {
    SolverParameter parameter;
    ParseTextProto(
        Concat(
            "type: 'Adam' base_lr: 0.001 lr_policy: 'fixed' random_seed: 7 display: 0 ",
            "solver_mode: CPU net_param { ",
            "layer { name: 'data' type: 'Data' top: 'data' top: 'label' ",
            "        data_param { source: '", folder_ / "records",
            "' backend: LMDB batch_size: 4 } transform_param { crop_size: 8 mirror: true ",
            "        scale: 0.004 } } ",
            "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' ",
            "        inner_product_param { num_output: 4000 weight_filler { type: 'xavier' } } } "
            "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' } ",
            "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' ",
            "        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } } "
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' ",
            "        top: 'loss' } }"),
        "test", &parameter);
    parameter.set_max_iter(max_iter);
    parameter.set_snapshot(snapshot);
    parameter.set_snapshot_prefix(Prefix(name));
    parameter.set_snapshot_format(GetParam());
    return parameter;
  }
  std::vector<std::string> Arguments(const std::string& name, int max_iter, int snapshot,
                                     int64_t resumed_from) const {
    const std::string file = folder_ / (name + ".prototxt");
    WriteTextProto(file, Parameter(name, max_iter, snapshot));
    std::vector<std::string> arguments = {"train", "-solver", file, "-gpu", "cpu"};
    if (resumed_from > 0) {
      arguments.push_back("-snapshot");
      arguments.push_back(NameOf("s", resumed_from, ".solverstate"));
    }
    return arguments;
  }

  struct Files {
    int64_t newest = 0;  // iteration of the newest state
    std::vector<std::filesystem::path> weights, states, unfinished, others;
    size_t finished() const { return weights.size() + states.size(); }
  };
  Files List() const {
    Files files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "files")) {
      const std::string name = entry.path().filename().string();
      const std::string ending = name.substr(std::min(name.size(), name.find('.')));
      if (ending.find(".tmp.") != std::string::npos) {
        files.unfinished.push_back(entry.path());
      } else if (ending == (hdf5() ? ".caffemodel.h5" : ".caffemodel")) {
        files.weights.push_back(entry.path());
      } else if (ending == (hdf5() ? ".solverstate.h5" : ".solverstate")) {
        files.states.push_back(entry.path());
        files.newest = std::max(files.newest, IterationOf(entry.path()));
      } else {
        files.others.push_back(entry.path());
      }
    }
    return files;
  }
  static int64_t IterationOf(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return std::stoll(name.substr(name.rfind("_iter_") + 6));
  }
  // Looks until the condition is true of the files; false if the command ends or a minute passes.
  bool WaitFor(CommandProcess* command, const std::function<bool(const Files&)>& condition) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (command->Runs() && std::chrono::steady_clock::now() < end) {
      if (condition(List())) return true;
      std::this_thread::yield();
    }
    return false;
  }

  SolverState ReadState(const std::string& path) const {
    if (hdf5()) return ReadSolverStateHdf5(path);
    SolverState state;
    ReadBinaryProto(path, &state);
    return state;
  }
  // Every value is there: none is left of those that were before.
  static void ExpectWholeWeights(Net* net, const std::string& path) {
    for (BlobBase* blob : net->learnable_params()) {
      blob->SetData(std::vector<double>(blob->count(), std::numeric_limits<double>::quiet_NaN()));
    }
    ASSERT_EQ("", ErrorOf([&] { net->CopyTrainedLayersFrom(path); }));
    for (BlobBase* blob : net->learnable_params()) {
      for (double value : blob->DataAsDouble()) ASSERT_TRUE(std::isfinite(value)) << path;
    }
  }
  void ExpectWholeState(Solver& solver, const std::string& path) const {
    SolverState state;
    ASSERT_EQ("", ErrorOf([&] { state = ReadState(path); }));
    EXPECT_EQ(IterationOf(path), state.iter()) << path;
    EXPECT_TRUE(std::filesystem::exists(state.learned_net())) << path;
    const auto& history = solver.updater().history();
    ASSERT_EQ(static_cast<int>(history.size()), state.history_size()) << path;
    for (size_t i = 0; i < history.size(); ++i) {
      EXPECT_EQ(history[i]->count(), state.history(i).data_size()) << path;
    }
    // The file that is written last.
    ASSERT_EQ(1, state.net_state_size()) << path;
    for (const LayerRunState& layer : state.net_state(0).layer()) {
      if (layer.name() == "drop") {
        EXPECT_EQ(state.iter(), layer.value(0)) << path;
      }
    }
    EXPECT_EQ("loss", state.net_state(0).layer().rbegin()->name()) << path;
  }

  TemporaryFolder folder_;
};

TEST_P(KilledTrainingTest, EverySnapshotIsWhole) {
  Solver solver(Parameter("s", 1000000, 0), Runtime::Get().cpu());
  const auto endless = [&](int64_t from) { return Arguments("s", 1000000, 1, from); };
  int64_t newest = 0;
  int in_writes = 0;
  for (int round = 0; round < kRounds || (in_writes < kKillsInWrites && round < kMostRounds);
       ++round) {
    SCOPED_TRACE(Concat("round ", round, ", resumed from iteration ", newest));
    CommandProcess command(endless(newest), folder_ / "log");
    if (round % 4 == 2) {
      // While it starts.
      std::this_thread::sleep_for(milliseconds(20 * (round % 8)));
    } else {
      ASSERT_TRUE(WaitFor(&command, [&](const Files& files) { return files.newest > newest; }))
          << folder_.Get("log");
      std::this_thread::sleep_for(milliseconds(7 * (round % 12)));
      // In a write, or when a file has just got its name.
      if (round % 4 == 1) {
        ASSERT_TRUE(WaitFor(&command, [](const Files& files) { return !files.unfinished.empty(); }))
            << folder_.Get("log");
      } else if (round % 4 == 3) {
        const size_t count = List().finished();
        ASSERT_TRUE(WaitFor(&command, [&](const Files& files) { return files.finished() > count; }))
            << folder_.Get("log");
      }
    }
    ASSERT_TRUE(command.Kill()) << folder_.Get("log");

    const Files files = List();
    in_writes += !files.unfinished.empty();
    // Those of one snapshot: the next process removes them.
    EXPECT_LE(files.unfinished.size(), 2u) << files.unfinished[0] << files.unfinished.back();
    EXPECT_TRUE(files.others.empty()) << files.others[0];
    EXPECT_GE(files.newest, newest);
    for (const auto& path : files.weights) ExpectWholeWeights(solver.net(), path.string());
    for (const auto& path : files.states) ExpectWholeState(solver, path.string());
    if (HasFatalFailure()) return;
    newest = files.newest;
    solver.Restore(NameOf("s", newest, ".solverstate"));
    EXPECT_EQ(newest, solver.iter());
    solver.Step(1);
    // Only the newest snapshot is needed.
    for (const auto* paths : {&files.weights, &files.states}) {
      for (const auto& path : *paths) {
        if (IterationOf(path) < newest) std::filesystem::remove(path);
      }
    }
  }
  EXPECT_GE(in_writes, kKillsInWrites);

  // After all these ends, training has come to where it comes without any.
  const int64_t end = newest + 3;
  ASSERT_EQ(0, CommandProcess(Arguments("s", end, 0, newest), folder_ / "log").Wait())
      << folder_.Get("log");
  ASSERT_EQ(0, CommandProcess(Arguments("whole", end, 0, 0), folder_ / "log").Wait())
      << folder_.Get("log");
  const auto weights = [&](const std::string& name) {
    const std::string file = NameOf(name, end, ".caffemodel");
    return (hdf5() ? ReadNetHdf5(file) : ReadNetParameterBinary(file)).SerializeAsString();
  };
  EXPECT_TRUE(weights("s") == weights("whole"));
  SolverState one = ReadState(NameOf("s", end, ".solverstate"));
  SolverState two = ReadState(NameOf("whole", end, ".solverstate"));
  one.clear_learned_net();
  two.clear_learned_net();
  EXPECT_TRUE(one.SerializeAsString() == two.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Formats, KilledTrainingTest,
                         testing::Values(SolverParameter::BINARYPROTO, SolverParameter::HDF5),
                         [](const auto& info) {
                           return info.param == SolverParameter::HDF5 ? "Hdf5" : "BinaryProto";
                         });

}  // namespace
}  // namespace caffe
