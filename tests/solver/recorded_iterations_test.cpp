// Iterations of a solver that are recorded once and replayed: the same bits as without graphs, on
// devices that can record, and on the others through a KeepingDevice.
#include <gtest/gtest.h>

#include <thread>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/graphs_off.hpp"
#include "support/layer_tester.hpp"
#include "support/recording.hpp"

namespace caffe {
namespace {

std::string Layer(const std::string& type, const std::string& name,
                  const std::vector<std::string>& bottoms, const std::string& top,
                  const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "' ";
  for (const std::string& bottom : bottoms) text += "bottom: '" + bottom + "' ";
  return text + "top: '" + top + "' " + more + " } ";
}

std::string Conv(const std::string& name, const std::string& bottom, const std::string& more = "") {
  return Layer("Convolution", name, {bottom}, name,
               "convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "
               "'xavier' } } " +
                   more);
}

// Every kind of state that an iteration changes: statistics, random numbers, masks, layers in
// place, branches, aliases, a second output.
std::string NetText(const std::string& more = "") {
  const std::string on_conv =
      "param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 } " + more;
  return "name: 'small' layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { "
         "shape { dim: 3 dim: 2 dim: 8 dim: 6 } shape { dim: 3 } } } " +
         Conv("conv1", "data", on_conv) + Layer("BatchNorm", "bn", {"conv1"}, "bn", more) +
         Layer("Scale", "scale", {"bn"}, "bn", "scale_param { bias_term: true } " + more) +
         Layer("ReLU", "relu1", {"bn"}, "bn", more) +
         Layer("Pooling", "pool", {"bn"}, "pool",
               "pooling_param { kernel_size: 2 stride: 2 } " + more) +
         Conv("left", "pool") + Layer("PReLU", "prelu", {"left"}, "left") + Conv("right", "pool") +
         Layer("Eltwise", "sum", {"left", "right"}, "sum") +
         Layer("Concat", "concat", {"sum", "pool"}, "concat") +
         Layer("Flatten", "flat", {"concat"}, "flat") + Layer("Dropout", "drop", {"flat"}, "drop") +
         Layer("InnerProduct", "ip", {"drop"}, "ip",
               "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } }") +
         Layer("SoftmaxWithLoss", "loss", {"ip", "label"}, "loss") +
         Layer("Accuracy", "accuracy", {"ip", "label"}, "accuracy");
}

// The arena of such a net has no array.
std::string TwoLayersText() {
  return "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 3 "
         "dim: 5 } shape { dim: 3 } } } " +
         Layer("InnerProduct", "ip", {"data"}, "ip",
               "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } }") +
         Layer("SoftmaxWithLoss", "loss", {"ip", "label"}, "loss");
}

// Sequences that begin where the mean of the data is negative, and continue those of the iteration
// before elsewhere.
std::string SequencesText(const std::string& type, const std::string& more = "") {
  return "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 4 "
         "dim: 3 dim: 5 } shape { dim: 4 dim: 3 } } } " +
         Layer("Reduction", "mean", {"data"}, "mean", "reduction_param { axis: 2 }") +
         Layer("Threshold", "cont", {"mean"}, "cont") +
         Layer(type, "lstm", {"data", "cont"}, "h",
               "recurrent_param { num_output: 6 weight_filler { type: 'xavier' } } " + more) +
         Layer("InnerProduct", "ip", {"h"}, "ip",
               "inner_product_param { num_output: 3 axis: 2 weight_filler { type: 'xavier' } }") +
         Layer("SoftmaxWithLoss", "loss", {"ip", "label"}, "loss", "softmax_param { axis: 2 }");
}

const char kTest[] = "test_iter: 1 test_interval: 4 ";

struct Case {
  std::string name, solver;
  DataType type = kFloat;
  bool frees_memory = false;
  std::string net = NetText();
};

SolverParameter ParameterOf(const Case& one) {
  SolverParameter parameter;
  ParseTextProto("base_lr: 0.02 random_seed: 7 loss_scale_init: 1024 snapshot_after_train: false " +
                     one.solver,
                 "test", &parameter);
  if (!parameter.has_lr_policy()) parameter.set_lr_policy("fixed");
  ParseTextProto(one.net, "net", parameter.mutable_net_param());
  parameter.set_data_type(static_cast<DataTypeProto>(one.type.info().proto));
  return parameter;
}

void FillInputs(Net* net, int iteration) {
  if (net->input_blobs().empty()) return;
  BlobBase& data = *net->BlobByName("data");
  data.SetData(TestNumbers(data.count(), 11 + iteration));
  const int items = static_cast<int>(net->BlobByName("label")->count());
  std::vector<double> labels;
  for (int i = 0; i < items; ++i) labels.push_back((i + iteration) % 3);
  net->BlobByName("label")->SetData(labels);
}

// Fills the inputs before each iteration.
class Filler : public Solver::Callback {
 public:
  explicit Filler(Solver* solver) : solver_(solver) {}
  void OnStart() override {
    FillInputs(solver_->net(), static_cast<int>(solver_->iter()));
    for (const auto& net : solver_->test_nets()) FillInputs(net.get(), 1);
  }
  bool looks_at_gradients() const override { return looks; }
  bool looks = false;

 private:
  Solver* solver_;
};

// A solver that replays and one that does not, of equal settings.
class Pair {
 public:
  Pair(const Case& one, Device* device) : device_(device) {
    for (auto* own : {&replayed_, &plain_}) {
      own->solver = std::make_unique<Solver>(ParameterOf(one), device);
      own->solver->set_frees_memory(one.frees_memory);
      own->filler = std::make_unique<Filler>(own->solver.get());
      own->solver->AddCallback(own->filler.get());
      FillInputs(own->solver->net(), 0);
      for (const auto& net : own->solver->test_nets()) FillInputs(net.get(), 1);
    }
    const GraphsOff off;  // for the first pass of this solver decides
    plain_.solver->Step(1);
  }

  Solver& replayed() { return *replayed_.solver; }
  Solver& plain() { return *plain_.solver; }
  Filler& filler(bool replays) { return *(replays ? replayed_ : plain_).filler; }
  // Trains both to the same iteration.
  void TrainTo(int64_t iteration) {
    for (Solver* solver : {&replayed(), &plain()}) solver->Step(iteration - solver->iter());
  }
  // Calls `change` with both.
  template <class Work> void Change(const Work& change) {
    for (Solver* solver : {&replayed(), &plain()}) change(*solver);
  }
  void ExpectEqual(const std::string& when) {
    const auto state = [](Solver& solver) {
      std::vector<std::string> outputs;
      for (const BlobBase* blob : solver.net()->output_blobs()) outputs.push_back(blob->name());
      return StateOf(solver, outputs);
    };
    EXPECT_EQ(FirstDifference(state(replayed()), state(plain())), "") << when;
  }
  // Launches of graphs, and all launches, in the next iteration.
  std::pair<int64_t, int64_t> Launches(bool replays = true) {
    Solver& solver = replays ? replayed() : plain();
    device_->ResetCounters();
    solver.Step(1);
    return {device_->counters().graph_launches, device_->counters().launches};
  }
  // Both train on; the first replays whole iterations, at last.
  void ExpectEqualAndReplayed() {
    const int64_t iteration = replayed().iter();
    for (int i = 1; i <= 5; ++i) {
      TrainTo(iteration + i);
      ExpectEqual(Concat("iteration ", iteration + i));
    }
    EXPECT_EQ(Launches(), (std::pair<int64_t, int64_t>{1, 1}));
    EXPECT_EQ(Launches(false).first, 0);
    ExpectEqual("the last iteration");
  }

 private:
  struct Own {
    std::unique_ptr<Filler> filler;
    std::unique_ptr<Solver> solver;
  };
  Device* device_;
  Own replayed_, plain_;
};

std::vector<Case> Cases() {
  std::vector<Case> cases{
      {"sgd", "momentum: 0.9 weight_decay: 0.01"},
      {"sgd_freed", "momentum: 0.9 weight_decay: 0.01", kFloat, true},
      {"half", "momentum: 0.9 weight_decay: 0.01", kHalf},
      {"half_freed", "momentum: 0.9 clip_gradients: 0.5", kHalf, true},
      {"step", "lr_policy: 'step' gamma: 0.5 stepsize: 2 momentum: 0.9"},
      {"inv_clipped", "lr_policy: 'inv' gamma: 0.1 power: 0.75 clip_gradients: 0.1"},
      {"poly", "lr_policy: 'poly' power: 1 max_iter: 100 momentum: 0.9"},
      {"multistep", "lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 stepvalue: 5"},
      {"nesterov", "type: 'Nesterov' momentum: 0.9 regularization_type: 'L1' weight_decay: 0.01"},
      {"adam", "type: 'Adam' momentum: 0.9 momentum2: 0.999"},
      {"adam_half", "type: 'Adam' momentum: 0.9 momentum2: 0.999", kHalf, true},
      {"adagrad", "type: 'AdaGrad'"},
      {"rmsprop", "type: 'RMSProp' rms_decay: 0.9"},
      {"adadelta", "type: 'AdaDelta' momentum: 0.9 delta: 1e-6"},
      {"average", "average_loss: 3 momentum: 0.9"},
      {"loss_scale", "loss_scale: 8 momentum: 0.9"},
      {"recompute", "momentum: 0.9", kFloat, true, NetText("recompute: true")},
      {"two_layers_freed", "momentum: 0.9", kFloat, true, TwoLayersText()},
      {"lstm", "momentum: 0.9", kFloat, false, SequencesText("LSTM")},
      {"lstm_freed", "momentum: 0.9", kHalf, true, SequencesText("LSTM")},
      {"lstm_recompute", "momentum: 0.9", kFloat, true, SequencesText("LSTM", "recompute: true")},
      {"rnn", "momentum: 0.9", kFloat, true, SequencesText("RNN")},
      {"gru", "momentum: 0.9", kFloat, true, SequencesText("GRU")},
  };
  return cases;
}

struct CaseOnDevice {
  RecordedOn on;
  Case one;
};
void PrintTo(const CaseOnDevice& value, std::ostream* out) { *out << value.one.name; }

std::vector<CaseOnDevice> CasesOnDevices() {
  std::vector<CaseOnDevice> all;
  for (const RecordedOn& on : RecordingDevices()) {
    for (const Case& one : Cases()) all.push_back({on, one});
  }
  return all;
}

class RecordedTrainingTest : public testing::TestWithParam<CaseOnDevice> {};

TEST_P(RecordedTrainingTest, HasTheBitsOfTrainingWithoutGraphs) {
  Recording recording(GetParam().on);
  Pair pair(GetParam().one, recording.device());
  pair.TrainTo(1);
  pair.ExpectEqualAndReplayed();
  EXPECT_EQ(pair.replayed().SmoothedLoss(), pair.plain().SmoothedLoss());
}

// Without a device that records there are none.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecordedIterationsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecordedTrainingTest);
INSTANTIATE_TEST_SUITE_P(All, RecordedTrainingTest, testing::ValuesIn(CasesOnDevices()),
                         [](const auto& info) {
                           return info.param.on.name() + "_" + info.param.one.name;
                         });

constexpr char kMomentum[] = "momentum: 0.9 weight_decay: 0.01 ";

// The events between iterations. `frees_memory` is the parameter's second part.
class RecordedIterationsTest : public testing::TestWithParam<std::tuple<RecordedOn, bool>> {
 protected:
  Case One(const std::string& solver = kMomentum, DataType type = kFloat,
           const std::string& net = NetText()) const {
    return {"", solver, type, std::get<1>(GetParam()), net};
  }
  Device* device() { return recording_.device(); }
  // Both solvers, after replays.
  std::unique_ptr<Pair> Warm(const Case& one) {
    auto pair = std::make_unique<Pair>(one, device());
    pair->TrainTo(1);
    pair->ExpectEqualAndReplayed();
    return pair;
  }
  Recording recording_{std::get<0>(GetParam())};
};

TEST_P(RecordedIterationsTest, AWarmIterationIsOneLaunchAndWaitsForNothing) {
  const auto pair = Warm(One("type: 'Adam' momentum: 0.9 lr_policy: 'exp' gamma: 0.9"));
  EXPECT_EQ(pair->Launches(), (std::pair<int64_t, int64_t>{1, 1}));
  const DeviceCounters counters = device()->counters();
  EXPECT_EQ(counters.uploads, 4);  // data, labels, the rate and Adam's correction
  EXPECT_EQ(counters.downloads, 0);
  EXPECT_EQ(counters.syncs, 0);
  EXPECT_EQ(counters.copies, 0);
  EXPECT_EQ(counters.allocations, 0);
  EXPECT_EQ(counters.builds, 0);
}

TEST_P(RecordedIterationsTest, ReadsBetweenIterations) {
  const auto pair = Warm(One());
  for (const char* blob : {"loss", "accuracy", "data"}) {
    EXPECT_EQ(pair->replayed().net()->BlobByName(blob)->DataAsDouble(),
              pair->plain().net()->BlobByName(blob)->DataAsDouble())
        << blob;
  }
  if (!std::get<1>(GetParam())) {
    for (const char* blob : {"conv1", "bn", "pool", "left", "sum", "drop", "ip"}) {
      const BlobBase& one = *pair->replayed().net()->BlobByName(blob);
      const BlobBase& two = *pair->plain().net()->BlobByName(blob);
      EXPECT_EQ(one.DataAsDouble(), two.DataAsDouble()) << blob;
      EXPECT_EQ(one.DiffAsDouble(), two.DiffAsDouble()) << blob;
    }
  }
  pair->ExpectEqualAndReplayed();
}

TEST_P(RecordedIterationsTest, ParametersThatAreWritten) {
  for (DataType type : {kFloat, kHalf}) {
    const auto pair = Warm(One(kMomentum, type));
    pair->Change([](Solver& solver) {
      BlobBase& weights = *solver.net()->LayerByName("left")->blobs()[0];
      weights.SetData(TestNumbers(weights.count(), 5));
      solver.updater().history()[0]->SetData(
          std::vector<double>(solver.updater().history()[0]->count(), 0.25));
    });
    pair->ExpectEqualAndReplayed();
  }
}

TEST_P(RecordedIterationsTest, ForwardsOfTheUser) {
  for (DataType type : {kFloat, kHalf}) {
    auto pair = std::make_unique<Pair>(One(kMomentum, type), device());
    // Also before the iteration that is recorded: copies of parameters are current then.
    for (int i = 1; i < 8; ++i) {
      pair->TrainTo(i);
      pair->Change([](Solver& solver) { solver.net()->Forward(); });
      pair->ExpectEqual(Concat("iteration ", i));
    }
    pair->Change([](Solver& solver) {
      solver.net()->Forward();
      solver.net()->Backward();
    });
    pair->ExpectEqualAndReplayed();
  }
}

TEST_P(RecordedIterationsTest, OtherShapes) {
  const auto pair = Warm(One());
  pair->Change([](Solver& solver) {
    solver.net()->BlobByName("data")->Reshape({5, 2, 8, 6});
    solver.net()->BlobByName("label")->Reshape({5});
  });
  pair->ExpectEqualAndReplayed();
}

TEST_P(RecordedIterationsTest, OtherMemory) {
  const auto pair = Warm(One());
  std::vector<std::shared_ptr<BlobBase>> others;
  std::vector<std::shared_ptr<SyncedMemory>> before;  // it stays where it is
  pair->Change([&](Solver& solver) {
    for (const char* name : {"left", "ip"}) {
      BlobBase& weights = *solver.net()->LayerByName(name)->blobs()[0];
      before.push_back(weights.data_memory());
      others.push_back(MakeBlob(kFloat, device(), weights.shape(), "other"));
      others.back()->SetData(TestNumbers(weights.count(), 9));
      weights.ShareData(*others.back());
    }
  });
  pair->ExpectEqualAndReplayed();
  // The memory that both hold is trained.
  EXPECT_EQ(others[0]->DataAsDouble(),
            pair->replayed().net()->LayerByName("left")->blobs()[0]->DataAsDouble());
}

TEST_P(RecordedIterationsTest, Views) {
  const auto pair = Warm(One());
  std::vector<std::shared_ptr<void>> views;
  pair->Change([&](Solver& solver) {
    Net& net = *solver.net();
    views.push_back(net.BlobByName("loss")->data_memory()->View());
    views.push_back(net.LayerByName("ip")->blobs()[0]->data_memory()->View());
  });
  for (int i = 0; i < 3; ++i) {
    for (const auto& view : views) static_cast<float*>(view.get())[0] = 0.25f * i;
    pair->TrainTo(pair->replayed().iter() + 1);
    pair->ExpectEqual("with views");
  }
  EXPECT_EQ(pair->Launches().first, 0);  // views are kept current between forward and backward
  EXPECT_EQ(pair->Launches(false).first, 0);
  views.clear();
  pair->ExpectEqualAndReplayed();
}

TEST_P(RecordedIterationsTest, TestsAndKeptBlobs) {
  const auto pair = Warm(One(Concat(kMomentum, kTest), kHalf));
  EXPECT_EQ(pair->replayed().Test(0), pair->plain().Test(0));
  pair->Change([](Solver& solver) { solver.net()->Keep({"pool", "ip"}); });
  pair->TrainTo(pair->replayed().iter() + 4);
  for (const char* blob : {"pool", "ip"}) {
    EXPECT_EQ(pair->replayed().net()->BlobByName(blob)->DiffAsDouble(),
              pair->plain().net()->BlobByName(blob)->DiffAsDouble());
  }
  pair->ExpectEqual("kept blobs");
}

// From a run with other random numbers, in solvers that have replayed.
TEST_P(RecordedIterationsTest, Resuming) {
  const TemporaryFolder folder;
  const Case one = One(Concat(kMomentum, "snapshot_prefix: '", folder / "run", "'"), kHalf);
  SolverParameter parameter = ParameterOf(one);
  parameter.set_random_seed(8);
  Solver other(parameter, device());
  FillInputs(other.net(), 0);
  other.Step(3);
  other.Snapshot();
  const auto pair = Warm(one);
  pair->Change([&](Solver& solver) { solver.Restore(other.last_snapshot()); });
  pair->ExpectEqualAndReplayed();
}

TEST_P(RecordedIterationsTest, OtherRandomNumbers) {
  const auto pair = Warm(One());
  pair->Change([](Solver& solver) { solver.net()->LayerByName("drop")->SetRunState(99, {3}); });
  pair->ExpectEqualAndReplayed();
}

TEST_P(RecordedIterationsTest, ShapesThatFollowTheData) {
  const TemporaryFolder folder;
  folder.Put("0.png", PngOf(TestImage(6, 5, 3, 0)));
  folder.Put("1.png", PngOf(TestImage(9, 7, 3, 90)));
  std::string list;
  for (const int image : {0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0}) {
    list += Concat(image, ".png ", image, "\n");
  }
  const std::string net =
      Concat(
          "layer { name: 'in' type: 'ImageData' top: 'data' top: 'label' image_data_param { "
          "source: '",
          folder.Put("images.txt", list), "' root_folder: '", folder.path().string(),
          "/' batch_size: 1 } transform_param { scale: 0.004 } } ") +
      Conv("conv", "data") +
      Layer("Pooling", "pool", {"conv"}, "pool",
            "pooling_param { pool: AVE global_pooling: true }") +
      Layer("InnerProduct", "ip", {"pool"}, "ip",
            "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } }") +
      Layer("SoftmaxWithLoss", "loss", {"ip", "label"}, "loss");
  Pair pair(One(kMomentum, kFloat, net), device());
  int64_t graphs = 0;
  pair.TrainTo(1);
  for (int i = 2; i < 18; ++i) {
    graphs += pair.Launches().first;
    pair.TrainTo(i);
    pair.ExpectEqual(Concat("iteration ", i));
  }
  EXPECT_GE(graphs, 4);  // of each shape some
}

TEST_P(RecordedIterationsTest, SeveralPassesOfAnIteration) {
  Pair pair(One(Concat(kMomentum, "iter_size: 3 average_loss: 2")), device());
  for (int i = 1; i < 8; ++i) {
    pair.TrainTo(i);
    pair.ExpectEqual(Concat("iteration ", i));
  }
  EXPECT_EQ(pair.Launches(), (std::pair<int64_t, int64_t>{3, 3}));
  EXPECT_EQ(pair.Launches(false).first, 0);
  pair.ExpectEqual("the last");
  EXPECT_EQ(pair.replayed().SmoothedLoss(), pair.plain().SmoothedLoss());
}

TEST_P(RecordedIterationsTest, DisplayedIterationsAndGradientsThatCallbacksRead) {
  Pair pair(One(Concat(kMomentum, "display: 2")), device());
  for (int i = 1; i < 9; ++i) {
    pair.TrainTo(i);
    pair.ExpectEqual(Concat("iteration ", i));
  }
  pair.TrainTo(10);
  // Displayed: the update runs after the lines. Not displayed: one launch.
  const auto displayed = pair.Launches();
  EXPECT_EQ(displayed.first, 1);
  EXPECT_GT(displayed.second, 1);
  EXPECT_EQ(pair.Launches(), (std::pair<int64_t, int64_t>{1, 1}));
  pair.filler(true).looks = pair.filler(false).looks = true;
  pair.TrainTo(17);
  pair.ExpectEqual("callbacks read gradients");
  pair.TrainTo(18);
  EXPECT_GT(pair.Launches().second, 1);
  EXPECT_GT(pair.Launches(false).second, 1);
  pair.ExpectEqual("the last");
}

// A layer that cannot be replayed divides the pass; it has no part in the others.
TEST_P(RecordedIterationsTest, LayersThatCannotBeReplayed) {
  std::string net = NetText();
  const std::string loss = Layer("SoftmaxWithLoss", "loss", {"ip", "label"}, "loss");
  net.replace(net.find(loss), loss.size(),
              Layer("ArgMax", "argmax", {"ip"}, "argmax", "argmax_param { axis: 1 }") + loss);
  Pair pair(One(kMomentum, kFloat, net), device());
  for (int i = 1; i < 7; ++i) {
    pair.TrainTo(i);
    pair.ExpectEqual(Concat("iteration ", i));
  }
  // Before and after ArgMax.
  EXPECT_EQ(pair.Launches(), (std::pair<int64_t, int64_t>{2, 3}));
  EXPECT_EQ(pair.Launches(false).first, 0);
  pair.ExpectEqual("the last");
}

// A record that fails leaves nothing behind, wherever it fails.
TEST_P(RecordedIterationsTest, RecordsThatFail) {
  if (!recording_.keeping()) GTEST_SKIP() << "the device itself records";
  for (const int call : {0, 7, 20, 33, 48}) {
    SCOPED_TRACE(Concat("call ", call));
    KeepingDevice& keeping = *recording_.keeping();
    Pair pair(One(kMomentum, kHalf), device());
    const int abandoned = keeping.abandoned;
    keeping.fails_at = call;
    for (int i = 1; i < 6; ++i) {
      pair.TrainTo(i);
      pair.ExpectEqual(Concat("iteration ", i));
    }
    EXPECT_EQ(keeping.abandoned, abandoned + 1);
    EXPECT_EQ(keeping.fails_at, -1);
    EXPECT_EQ(pair.Launches().first, 0);  // it is not tried again
  }
}

TEST_P(RecordedIterationsTest, SolversOfSeveralThreads) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (const char* text : {"momentum: 0.9", "type: 'Adam' momentum: 0.9"}) {
    pairs.push_back(std::make_unique<Pair>(One(text), device()));
    pairs.back()->plain().Step(8);
  }
  std::vector<std::thread> threads;
  for (const auto& pair : pairs) {
    threads.emplace_back([&pair] {
      for (int i = 0; i < 9; ++i) pair->replayed().Step(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& pair : pairs) {
    pair->ExpectEqual("after the threads");
    pair->ExpectEqualAndReplayed();
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordedIterationsTest,
                         testing::Combine(testing::ValuesIn(RecordingDevices()), testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param).name() +
                                  (std::get<1>(info.param) ? "_freed" : "_stored");
                         });

}  // namespace
}  // namespace caffe
