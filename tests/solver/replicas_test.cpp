// Two replicas that one thread trains on one device, with sums of their gradients, have the bits of
// one net with iter_size: 2 over the same batches.
#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/layers/memory_data_layer.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/layer_tester.hpp"
#include "support/recording.hpp"
#include "support/summing_communicator.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int kBatches = 6;  // of both replicas together, each of one image

std::string Layer(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

std::string Weights(const std::string& type, const std::string& settings) {
  return type + "_param { " + settings + " weight_filler { type: 'xavier' } } ";
}

std::string DataText(int side) {
  const std::string size = std::to_string(side);
  return "name: 'small' layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' "
         "memory_data_param { batch_size: 1 channels: 2 height: " +
         size + " width: " + size + " } } ";
}

std::string LossText(const std::string& bottom) {
  return Layer("InnerProduct", "last", bottom, "last", Weights("inner_product", "num_output: 3")) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' "
         "} ";
}

std::string LeNetText() {
  return DataText(12) +
         Layer("Convolution", "conv1", "data", "conv1",
               Weights("convolution", "num_output: 4 kernel_size: 3")) +
         Layer("Pooling", "pool1", "conv1", "pool1", "pooling_param { kernel_size: 2 stride: 2 }") +
         Layer("Convolution", "conv2", "pool1", "conv2",
               Weights("convolution", "num_output: 6 kernel_size: 2")) +
         Layer("Pooling", "pool2", "conv2", "pool2", "pooling_param { kernel_size: 2 stride: 2 }") +
         Layer("InnerProduct", "ip1", "pool2", "ip1", Weights("inner_product", "num_output: 10")) +
         Layer("ReLU", "relu1", "ip1", "ip1") + LossText("ip1");
}

std::string AlexNetText() {
  return DataText(16) +
         Layer("Convolution", "conv1", "data", "conv1",
               Weights("convolution", "num_output: 8 kernel_size: 5 stride: 2")) +
         Layer("ReLU", "relu1", "conv1", "conv1") +
         Layer("LRN", "norm1", "conv1", "norm1", "lrn_param { local_size: 5 alpha: 0.1 }") +
         Layer("Pooling", "pool1", "norm1", "pool1", "pooling_param { kernel_size: 2 stride: 2 }") +
         Layer("Convolution", "conv2", "pool1", "conv2",
               Weights("convolution", "num_output: 8 kernel_size: 3 pad: 1 group: 2")) +
         Layer("ReLU", "relu2", "conv2", "conv2") +
         Layer("InnerProduct", "fc6", "conv2", "fc6", Weights("inner_product", "num_output: 12")) +
         Layer("ReLU", "relu6", "fc6", "fc6") + LossText("fc6");
}

struct Case {
  std::string name, net, solver;
  bool frees_memory = false;
  int64_t bucket_bytes = 1024;  // several buckets
};

std::vector<Case> Cases() {
  const std::string sgd = "momentum: 0.9 weight_decay: 0.01 ";
  const std::string adam = "type: 'Adam' momentum: 0.9 momentum2: 0.999 ";
  return {
      {"lenet_sgd", LeNetText(), sgd},
      {"lenet_sgd_freed", LeNetText(), sgd, true},
      {"lenet_adam", LeNetText(), adam, true},
      {"lenet_clipped", LeNetText(), sgd + "clip_gradients: 0.5 "},
      {"lenet_one_bucket", LeNetText(), sgd, true, Solver::kBucketBytes},
      {"alexnet_sgd", AlexNetText(), sgd, true},
      {"alexnet_adam", AlexNetText(), adam},
  };
}

// A solver whose net reads the batches first, first + step, ...
class Trained {
 public:
  Trained(const Case& one, Device* device, int iter_size, int first, int step) {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.02 lr_policy: 'fixed' random_seed: 7 snapshot_after_train: false " + one.solver,
        "test", &parameter);
    ParseTextProto(one.net, "net", parameter.mutable_net_param());
    parameter.set_iter_size(iter_size);
    solver = std::make_unique<Solver>(parameter, device);
    solver->set_frees_memory(one.frees_memory);
    auto& layer = dynamic_cast<MemoryData&>(*solver->net()->LayerByName("in"));
    for (int batch = first; batch < kBatches; batch += step) {
      for (double value : TestNumbers(layer.item_count(), 11 + batch)) {
        data_.push_back(static_cast<float>(value));
      }
      labels_.push_back(static_cast<float>(batch % 3));
    }
    layer.Reset(data_.data(), labels_.data(), static_cast<int64_t>(labels_.size()));
  }
  std::unique_ptr<Solver> solver;

 private:
  std::vector<float> data_, labels_;
};

// Both replicas, and the net with iter_size: 2.
class Replicated {
 public:
  Replicated(const Case& one, Device* device)
      : whole_(one, device, 2, 0, 1), first_(one, device, 1, 0, 2), second_(one, device, 1, 1, 2) {
    for (int rank = 0; rank < 2; ++rank) {
      replicas()[rank]->SetCommunicator(group.rank(rank), one.bucket_bytes);
    }
  }
  Solver& whole() { return *whole_.solver; }
  std::vector<Solver*> replicas() { return {first_.solver.get(), second_.solver.get()}; }
  void Step(int iterations) {
    Solver::StepTogether(replicas(), iterations);
    whole().Step(iterations);
  }
  void ExpectEqual(const std::string& when) {
    const double loss = (replicas()[0]->SmoothedLoss() + replicas()[1]->SmoothedLoss()) / 2;
    const auto first = StateOf(*replicas()[0], {}), second = StateOf(*replicas()[1], {});
    EXPECT_EQ(FirstDifference(first, second), "") << when;
    if (exact()) {
      EXPECT_EQ(FirstDifference(first, StateOf(whole(), {})), "") << when;
      EXPECT_EQ(loss, whole().SmoothedLoss()) << when;
      return;
    }
    EXPECT_NEAR(loss, whole().SmoothedLoss(), 1e-3) << when;
    ExpectSame(Parameters(*replicas()[0]), Parameters(whole()), when);
  }
  // The gradients, or the parameters, of a replica and of the whole.
  void ExpectSame(const std::vector<std::vector<double>>& own,
                  const std::vector<std::vector<double>>& expected, const std::string& when) {
    if (exact()) {
      EXPECT_EQ(own, expected) << when;
      return;
    }
    ASSERT_EQ(own.size(), expected.size()) << when;
    for (size_t i = 0; i < own.size(); ++i) ExpectNear(own[i], expected[i], 1e-3, when);
  }
  SummingGroup group{2};

 private:
  // CUDA's libraries add the gradient of a batch in pieces to those of the batch before it.
  bool exact() { return whole().net()->device()->backend() != "cuda"; }
  static std::vector<std::vector<double>> Parameters(Solver& solver) {
    std::vector<std::vector<double>> values;
    for (const BlobBase* blob : solver.net()->learnable_params()) {
      values.push_back(blob->DataAsDouble());
    }
    return values;
  }

  Trained whole_, first_, second_;
};

struct CaseOnDevice {
  Device* device;
  Case one;
};
void PrintTo(const CaseOnDevice& value, std::ostream* out) { *out << value.one.name; }

std::vector<CaseOnDevice> CasesOnDevices() {
  std::vector<CaseOnDevice> all;
  for (Device* device : TestDevices()) {
    for (const Case& one : Cases()) {
      if (!CompilesSlowly(*device) || one.name == "lenet_adam") all.push_back({device, one});
    }
  }
  return all;
}

class ReplicasTest : public testing::TestWithParam<CaseOnDevice> {};

TEST_P(ReplicasTest, HaveTheBitsOfOneNetWithTwoBatches) {
  Replicated both(GetParam().one, GetParam().device);
  for (int i = 1; i <= 20; ++i) {
    both.Step(1);
    both.ExpectEqual(Concat("iteration ", i));
    if (HasFailure()) return;
  }
  const bool one = GetParam().one.bucket_bytes == Solver::kBucketBytes;
  EXPECT_TRUE(one ? both.group.sums <= 20 : both.group.sums > 0);
}

// Reads the gradients of a net through views that exist all the time.
class ViewedGradients : public Solver::Callback {
 public:
  explicit ViewedGradients(Solver* solver) {
    for (const BlobBase* blob : solver->net()->learnable_params()) {
      views_.push_back({blob->diff_memory()->View(), blob->count()});
    }
    solver->AddCallback(this);
  }
  void OnGradientsReady() override {
    for (const auto& [view, count] : views_) {
      const float* const values = static_cast<const float*>(view.get());
      seen.emplace_back(values, values + count);
    }
  }
  std::vector<std::vector<double>> seen;

 private:
  std::vector<std::pair<std::shared_ptr<void>, int64_t>> views_;
};

// With views, the iterations of all replicas run in parts.
TEST_P(ReplicasTest, ViewsShowTheSumsAndChangeNoResult) {
  Replicated both(GetParam().one, GetParam().device);
  both.Step(2);
  ViewedGradients first(both.replicas()[0]), second(both.replicas()[1]), whole(&both.whole());
  for (int i = 3; i <= 5; ++i) {
    both.Step(1);
    both.ExpectEqual(Concat("iteration ", i, " with views"));
  }
  ASSERT_FALSE(whole.seen.empty());
  both.ExpectSame(first.seen, whole.seen, "first");
  both.ExpectSame(second.seen, whole.seen, "second");
}

INSTANTIATE_TEST_SUITE_P(
    All, ReplicasTest, testing::ValuesIn(CasesOnDevices()), [](const auto& info) {
      return (RecordedOn{info.param.device, false}).name() + "_" + info.param.one.name;
    });

class RecordedReplicasTest : public testing::TestWithParam<RecordedOn> {};

// On a KeepingDevice, in any order that the memories allow.
TEST_P(RecordedReplicasTest, AnIterationOfBothIsOneLaunchWithTheSameBits) {
  Recording recording(GetParam());
  for (const Case& one : Cases()) {
    if (CompilesSlowly(*GetParam().device) && one.name != "lenet_adam") continue;
    SCOPED_TRACE(one.name);
    Replicated both(one, recording.device());
    for (int i = 1; i <= 20; ++i) {
      both.Step(1);
      both.ExpectEqual(Concat("iteration ", i));
      if (HasFailure()) return;
    }
    recording.device()->ResetCounters();
    Solver::StepTogether(both.replicas(), 1);
    EXPECT_EQ(recording.device()->counters().graph_launches, 1);
    EXPECT_EQ(recording.device()->counters().launches, 1);
    EXPECT_EQ(recording.device()->counters().syncs, 0);
  }
}

// Without an order by memory, the events between streams order the work of a record.
TEST_P(RecordedReplicasTest, SumsAreBranchesOfTheGraph) {
  Recording recording(GetParam());
  const ScopedVariable linear("CAFFE_GRAPHS", "");
  Device* const device = recording.device();
  Replicated both(Cases()[2], device);
  Solver::StepTogether(both.replicas(), 6);
  if (recording.keeping()) {
    EXPECT_GT(recording.keeping()->joins, 0);
  }
  both.whole().Step(6);
  for (int i = 7; i <= 20; ++i) {
    both.Step(1);
    both.ExpectEqual(Concat("iteration ", i));
  }
  device->ResetCounters();
  Solver::StepTogether(both.replicas(), 1);
  EXPECT_EQ(device->counters().graph_launches, 1);
  EXPECT_EQ(device->counters().launches, 1);
}

// Without a device that records there are none.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecordedReplicasTest);
INSTANTIATE_TEST_SUITE_P(All, RecordedReplicasTest, testing::ValuesIn(RecordingDevices()),
                         [](const auto& info) { return info.param.name(); });

Device* Cpu() { return TestDevices()[0]; }

// The gradients that a callback sees in each iteration.
class Gradients : public Solver::Callback {
 public:
  explicit Gradients(Solver* solver) : solver_(solver) { solver->AddCallback(this); }
  void OnGradientsReady() override {
    for (const BlobBase* blob : solver_->net()->learnable_params()) {
      seen.push_back(blob->DiffAsDouble());
    }
  }
  std::vector<std::vector<double>> seen;

 private:
  Solver* solver_;
};

TEST(ReplicasOfOneThreadTest, CallbacksSeeTheSums) {
  Replicated both(Cases()[0], Cpu());
  Gradients whole(&both.whole()), first(both.replicas()[0]), second(both.replicas()[1]);
  both.Step(5);
  both.ExpectEqual("iteration 5");
  ASSERT_FALSE(whole.seen.empty());
  EXPECT_EQ(first.seen, whole.seen);
  EXPECT_EQ(second.seen, whole.seen);
}

// Timers and callbacks of layers run a forward and a backward of each net.
TEST(ReplicasOfOneThreadTest, AnObserverOfLayersSeesOneReplica) {
  Replicated both(Cases()[0], Cpu());
  int layers = 0;
  both.replicas()[1]->net()->set_after_forward([&](int) { ++layers; });
  both.Step(3);
  both.ExpectEqual("iteration 3");
  EXPECT_EQ(layers, 3 * static_cast<int>(both.whole().net()->layers().size()));
}

TEST(ReplicasOfOneThreadTest, OnlyTheLastBatchOfAnIterationIsFollowedBySums) {
  Case one = Cases()[0];
  one.bucket_bytes = Solver::kBucketBytes;
  Trained first(one, Cpu(), 2, 0, 2), second(one, Cpu(), 2, 1, 2), whole(one, Cpu(), 4, 0, 1);
  SummingGroup group(2);
  first.solver->SetCommunicator(group.rank(0));
  second.solver->SetCommunicator(group.rank(1));
  Solver::StepTogether({first.solver.get(), second.solver.get()}, 3);
  EXPECT_EQ(group.sums, 3);
  // The batches are added in another order than one net adds them.
  whole.solver->Step(3);
  const auto& expected = whole.solver->net()->learnable_params();
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> values = first.solver->net()->learnable_params()[i]->DataAsDouble();
    EXPECT_EQ(values, second.solver->net()->learnable_params()[i]->DataAsDouble());
    for (size_t j = 0; j < values.size(); ++j) {
      EXPECT_NEAR(values[j], expected[i]->DataAsDouble()[j], 1e-5);
    }
  }
}

TEST(ReplicasOfOneThreadTest, NetsThatDifferAreRefused) {
  Case one = Cases()[0], other = one;
  const std::string outputs = "num_output: 6";
  other.net.replace(other.net.find(outputs), outputs.size(), "num_output: 5");
  Trained first(one, Cpu(), 1, 0, 2), second(other, Cpu(), 1, 1, 2);
  SummingGroup group(2);
  first.solver->SetCommunicator(group.rank(0));
  const std::string error = ErrorOf([&] { second.solver->SetCommunicator(group.rank(1)); });
  for (const char* part : {"replica 1", "layer 'conv2'", "5 4 2 2 (80)", "6 4 2 2 (96)"}) {
    EXPECT_TRUE(Holds(error, part));
  }
}

// In one list, and with an observer of layers, for which each net runs a forward and a backward.
TEST(ReplicasOfOneThreadTest, SolversWithoutTheSameReductionsAreRefused) {
  for (const bool looks : {false, true}) {
    const Case one = Cases()[0];
    Trained first(one, Cpu(), 1, 0, 2), second(one, Cpu(), 1, 1, 2);
    SummingGroup group(2);
    first.solver->SetCommunicator(group.rank(0), one.bucket_bytes);
    if (looks) first.solver->net()->set_after_forward([](int) {});
    const std::string error = ErrorOf([&] {
      Solver::StepTogether({first.solver.get(), second.solver.get()}, 1);
    });
    for (const char* part : {"replica 1, has 0 reductions", "give each solver a communicator"}) {
      EXPECT_TRUE(Holds(error, part)) << error;
    }
  }
  EXPECT_TRUE(Holds(ErrorOf([] { Solver::StepTogether({}, 1); }), "at least one solver"));
}

TEST(ReplicasOfOneThreadTest, NetsOfOtherNamesTypesOrNumbersOfParametersAreRefused) {
  struct Other {
    const char *from, *to, *type;
    std::vector<const char*> parts;
  };
  const Other others[] = {
      {"name: 'conv2'", "name: 'second'", "", {"layer 'second'", "layer 'conv2'", "6 4 2 2"}},
      {"'small'", "'small'", "data_type: CAFFE_DOUBLE", {"layer 'conv1'", "double", "float"}},
      {"num_output: 3",
       "bias_term: false num_output: 3",
       "",
       {"parameter 7 is ", "replica 0 is layer 'last'"}},
  };
  for (const Other& other : others) {
    SCOPED_TRACE(other.to);
    const Case one = Cases()[0];
    Case changed = one;
    changed.net.replace(changed.net.find(other.from), std::string(other.from).size(), other.to);
    changed.solver += other.type;
    Trained first(one, Cpu(), 1, 0, 2), second(changed, Cpu(), 1, 1, 2);
    SummingGroup group(2);
    first.solver->SetCommunicator(group.rank(0));
    const std::string error = ErrorOf([&] { second.solver->SetCommunicator(group.rank(1)); });
    EXPECT_TRUE(Holds(error, "replica 1"));
    for (const char* part : other.parts) EXPECT_TRUE(Holds(error, part));
  }
}

// The gradient of a shared parameter is complete after the lowest of its layers. One net adds the
// terms of both batches in another order.
TEST(ReplicasOfOneThreadTest, SharedParametersAreSummedAfterTheirLastWriter) {
  Case one = Cases()[0];
  one.bucket_bytes = 1;
  const std::string shared = "param { name: 'w' } param { name: 'b' } ";
  const std::string square = Weights("inner_product", "num_output: 10") + shared;
  one.net =
      DataText(12) +
      Layer("InnerProduct", "first", "data", "first", Weights("inner_product", "num_output: 10")) +
      Layer("InnerProduct", "lower", "first", "lower", square) +
      Layer("TanH", "tanh", "lower", "tanh") +
      Layer("InnerProduct", "upper", "tanh", "upper", square) + LossText("upper");
  Replicated both(one, Cpu());
  ASSERT_EQ(both.whole().net()->learnable_params().size(), 6u);
  both.Step(10);
  const auto values = [](Solver& solver, size_t i) {
    return solver.net()->learnable_params()[i]->DataAsDouble();
  };
  for (size_t i = 0; i < 6; ++i) {
    const std::vector<double> mine = values(*both.replicas()[0], i),
                              whole = values(both.whole(), i);
    EXPECT_EQ(mine, values(*both.replicas()[1], i)) << "parameter " << i;
    for (size_t j = 0; j < mine.size(); ++j) ASSERT_NEAR(mine[j], whole[j], 1e-5);
  }
}

TEST(ReplicasOfOneThreadTest, SolversAtDifferentIterationsAreRefused) {
  Replicated both(Cases()[0], Cpu());
  Trained other(Cases()[0], Cpu(), 1, 1, 2);
  other.solver->Step(1);
  const std::string error = ErrorOf([&] {
    Solver::StepTogether({both.replicas()[0], other.solver.get()}, 1);
  });
  for (const char* part : {"replica 1", "the iteration is 1", "replica 0 is 0"}) {
    EXPECT_TRUE(Holds(error, part));
  }
}

}  // namespace
}  // namespace caffe
