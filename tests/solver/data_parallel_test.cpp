// Several ranks train as one net does with iter_size: the number of ranks, over the same batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/source_layer.hpp"
#include "caffe/parallel/ranks.hpp"
#include "caffe/solver/solver.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kItems = 40;

// Items of 2 x 8 x 8 numbers in [-1, 1), made from their indices, with the classes 0 to 2.
class Images final : public ItemSource {
 public:
  explicit Images(int64_t fails_at) : fails_at_(fails_at) {}
  std::vector<int64_t> Groups() const override { return {kItems}; }
  std::vector<Shape> Shapes(int64_t) override { return {{2, 8, 8}, {}}; }
  void Read(const std::vector<BatchItem>& items, DataBatch* batch) override {
    const auto count = static_cast<int64_t>(items.size());
    (*batch)[0].Reshape({count, 2, 8, 8});
    (*batch)[1].Reshape({count});
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<uint32_t>(items[i].index);
      CAFFE_CHECK(items[i].index != fails_at_, "item ", items[i].index, " is damaged");
      uint32_t state = index * 2654435761u + 1;
      for (int64_t j = 0; j < 128; ++j) {
        state = state * 1664525u + 1013904223u;
        (*batch)[0].data<float>()[i * 128 + j] = static_cast<float>(state >> 8) / 8388608.f - 1;
      }
      (*batch)[1].data<float>()[i] = static_cast<float>(index % 3);
    }
  }

 private:
  const int64_t fails_at_;
};

// data_param: batch_size; rand_skip is the index of an item that cannot be read.
class ImagesLayer final : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings ReadSettings() const override {
    Settings settings;
    settings.batch_size = layer_param().data_param().batch_size();
    settings.shuffle = phase() == TRAIN;
    return settings;
  }
  std::unique_ptr<ItemSource> Open(const BlobVec&) override {
    const DataParameter& data = layer_param().data_param();
    return std::make_unique<Images>(data.rand_skip() > 0 ? data.rand_skip() : -1);
  }
};

void AddImages() {
  static const bool once = [] {
    LayerTraits traits;
    traits.min_bottom = traits.max_bottom = 0;
    traits.min_top = traits.max_top = 2;
    traits.data = true;
    traits.types = {kFloat};
    traits.backward_reads = Always({});
    LayerRegistry::Get().AddUntyped(
        "TestImages", traits, [](const LayerParameter& parameter, const LayerContext& context) {
          return std::make_shared<ImagesLayer>(parameter, context);
        });
    return true;
  }();
  static_cast<void>(once);
}

std::string Layer(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         name + "' " + more + " } ";
}

std::string Product(const std::string& name, const std::string& bottom, int outputs) {
  return Layer(
      "InnerProduct", name, bottom,
      Concat("inner_product_param { num_output: ", outputs, " weight_filler { type: 'xavier' } }"));
}

std::string Conv(const std::string& name, const std::string& bottom, int outputs) {
  return Layer("Convolution", name, bottom,
               Concat("convolution_param { num_output: ", outputs,
                      " kernel_size: 3 weight_filler { type: 'xavier' } }"));
}

std::string Ends(int batch, const std::string& body, const std::string& last, int damaged = 0) {
  const std::string data = Concat(" top: 'data' top: 'label' data_param { batch_size: ", batch,
                                  " rand_skip: ", damaged, " } } ");
  return "net_param { name: 'ranks' layer { name: 'in' type: 'TestImages'" + data + body +
         Product("score", last, 3) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' top: 'loss' "
         "} layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' bottom: 'label' top: "
         "'accuracy' include { phase: TEST } } } ";
}

std::string LeNet(int batch, int damaged = 0) {
  const std::string pool = "pooling_param { kernel_size: 2 stride: 2 }";
  return Ends(batch,
              Conv("conv1", "data", 4) + Layer("Pooling", "pool1", "conv1", pool) +
                  Product("ip1", "pool1", 6) + Layer("ReLU", "relu1", "ip1"),
              "relu1", damaged);
}

std::string Normed(int batch) {
  return Ends(batch,
              Conv("conv1", "data", 4) + Layer("BatchNorm", "bn1", "conv1") +
                  Layer("Scale", "scale1", "bn1", "scale_param { bias_term: true }") +
                  Layer("ReLU", "relu1", "scale1") + Conv("conv2", "relu1", 3) +
                  Layer("BatchNorm", "bn2", "conv2"),
              "bn2");
}

// An item is a sequence of 8 steps.
std::string Sequence(int batch) {
  return Ends(
      batch,
      Layer("Reshape", "steps", "data", "reshape_param { shape { dim: 8 dim: -1 dim: 16 } }") +
          "layer { name: 'marks' type: 'DummyData' top: 'first' top: 'others' "
          "dummy_data_param { shape { dim: 1 dim: 1 } shape { dim: 7 dim: 1 } "
          "data_filler { value: 0 } data_filler { value: 1 } } } "
          "layer { name: 'cont' type: 'Concat' bottom: 'first' bottom: 'others' top: 'cont' "
          "concat_param { axis: 0 } } "
          "layer { name: 'lstm' type: 'LSTM' bottom: 'steps' bottom: 'cont' top: 'lstm' "
          "recurrent_param { num_output: 5 weight_filler { type: 'xavier' } } } " +
          Layer("Reshape", "flat", "lstm", "reshape_param { shape { dim: 1 dim: -1 } }"),
      "flat");
}

std::string Mixture(int batch) {
  const std::string input =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 12 } } } ";
  return Ends(batch,
              Product("ip1", "data", 12) + Layer("ReLU", "relu1", "ip1") +
                  "layer { name: 'moe' type: 'MOE' bottom: 'relu1' top: 'moe' moe_param { "
                  "select_experts: 2 expert_instances: 3 gating_net { " +
                  input + Product("gate", "x", 3) + Layer("Softmax", "gates", "gate") +
                  "} expert_net { " + input + Product("expert", "x", 6) + "} } } ",
              "moe");
}

const char* const kSgd = "base_lr: 0.05 momentum: 0.9 weight_decay: 0.01 ";

SolverParameter Settings(const std::string& net, const std::string& more = kSgd,
                         int iter_size = 1) {
  AddImages();
  SolverParameter parameter;
  ParseTextProto(Concat("lr_policy: 'fixed' random_seed: 7 iter_size: ", iter_size,
                        " snapshot_after_train: false ", more, net),
                 "test", &parameter);
  return parameter;
}

using Work = std::function<void(Solver*)>;

// Calls `work` with the solver of each rank.
void OnRanks(const std::vector<Device*>& devices, const SolverParameter& settings, const Work& work,
             bool frees_memory = true, int64_t bucket_bytes = 256) {
  RunRanks(devices, [&](Communicator* communicator, Device* device) {
    Solver solver(settings, device);
    solver.set_frees_memory(frees_memory);
    solver.SetCommunicator(communicator, bucket_bytes);
    work(&solver);
  });
}

std::vector<Device*> Cpus(int ranks) {
  return std::vector<Device*>(static_cast<size_t>(ranks), Runtime::Get().cpu());
}

std::vector<double> Parameters(const Solver& solver) {
  std::vector<double> all;
  for (const BlobBase* blob : const_cast<Solver&>(solver).net()->learnable_params()) {
    const std::vector<double> values = blob->DataAsDouble();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// The parameters of rank 0 after these iterations; all ranks have the same.
std::vector<double> Trained(const std::vector<Device*>& devices, const SolverParameter& settings,
                            int iterations, bool frees_memory = true) {
  std::vector<std::vector<double>> all(devices.size());
  std::atomic<size_t> next{0};
  OnRanks(
      devices, settings,
      [&](Solver* solver) {
        solver->Step(iterations);
        all[next++] = Parameters(*solver);
      },
      frees_memory);
  for (const auto& one : all) EXPECT_EQ(one, all[0]);
  return all[0];
}

std::vector<double> TrainedAlone(const SolverParameter& settings, int iterations, Device* device) {
  Solver solver(settings, device);
  solver.set_frees_memory(true);
  solver.Step(iterations);
  return Parameters(solver);
}

double Distance(const std::vector<double>& one, const std::vector<double>& two) {
  EXPECT_EQ(one.size(), two.size());
  double most = 0;
  for (size_t i = 0; i < one.size() && i < two.size(); ++i) {
    most = std::max(most, std::isfinite(one[i] - two[i]) ? std::abs(one[i] - two[i]) : 1e30);
  }
  return most;
}

TEST(DataParallelTest, EveryRuleTrainsAsWithIterSize) {
  Device* const cpu = Runtime::Get().cpu();
  const std::vector<std::string> rules = {kSgd,
                                          "base_lr: 0.05 momentum: 0.9 clip_gradients: 0.1 ",
                                          "type: 'Nesterov' base_lr: 0.05 momentum: 0.9 ",
                                          "type: 'AdaGrad' base_lr: 0.01 ",
                                          "type: 'RMSProp' base_lr: 0.001 rms_decay: 0.9 ",
                                          "type: 'AdaDelta' base_lr: 1 momentum: 0.95 delta: 1e-6 ",
                                          "type: 'Adam' base_lr: 0.002 momentum: 0.9 "};
  for (const std::string& rule : rules) {
    const std::vector<double> before = TrainedAlone(Settings(LeNet(1), rule), 0, cpu);
    for (const int ranks : {2, 3}) {
      const std::vector<double> expected = TrainedAlone(Settings(LeNet(1), rule, ranks), 12, cpu);
      const std::vector<double> found = Trained(Cpus(ranks), Settings(LeNet(1), rule), 12);
      EXPECT_LT(Distance(found, expected), 2e-5) << rule << ranks;
      EXPECT_GT(Distance(found, before), 1e-3) << rule << ranks;
    }
  }
}

TEST(DataParallelTest, NetsTrainAsWithIterSizeOnEveryDevice) {
  const std::vector<std::pair<std::string, std::string>> nets = {
      {"LeNet", LeNet(1)}, {"LSTM", Sequence(1)}, {"MOE", Mixture(1)}};
  for (Device* device : TestDevices()) {
    for (const auto& [name, net] : nets) {
      const std::vector<double> expected = TrainedAlone(Settings(net, kSgd, 2), 6, device);
      const std::vector<double> found = Trained({device, device}, Settings(net), 6);
      EXPECT_LT(Distance(found, expected), 1e-4) << name << " " << device->info().id;
    }
  }
}

// Two batches of iter_size for each of two ranks are four.
TEST(DataParallelTest, IterSizeIsOfEachRank) {
  Device* const cpu = Runtime::Get().cpu();
  const std::vector<double> expected = TrainedAlone(Settings(LeNet(1), kSgd, 4), 6, cpu);
  EXPECT_LT(Distance(Trained(Cpus(2), Settings(LeNet(1), kSgd, 2), 6), expected), 2e-5);
}

TEST(DataParallelTest, DevicesOfDifferentKindsTrainTogether) {
  Device* const cpu = Runtime::Get().cpu();
  for (Device* device : TestDevices()) {
    if (device == cpu) continue;
    const std::vector<double> expected = TrainedAlone(Settings(LeNet(1), kSgd, 2), 6, cpu);
    EXPECT_LT(Distance(Trained({cpu, device}, Settings(LeNet(1)), 6), expected), 1e-4)
        << device->info().id;
  }
}

TEST(DataParallelTest, TheSameBitsTwice) {
  const SolverParameter settings = Settings(LeNet(2));
  EXPECT_EQ(Trained(Cpus(3), settings, 10), Trained(Cpus(3), settings, 10));
}

// Two ranks with 4 items each have the statistics of one batch of 8.
TEST(DataParallelTest, JointStatisticsAreThoseOfOneBatch) {
  for (Device* device : TestDevices()) {
    const std::vector<double> expected = TrainedAlone(Settings(Normed(8)), 5, device);
    for (const bool frees_memory : {false, true}) {
      const SolverParameter joint =
          Settings(Normed(4), std::string(kSgd) + "sync_statistics: true ");
      EXPECT_LT(Distance(Trained({device, device}, joint, 5, frees_memory), expected), 2e-4)
          << device->info().id << " " << frees_memory;
    }
  }
}

TEST(DataParallelTest, WithoutJointStatisticsEachRankHasItsOwn) {
  Device* const cpu = Runtime::Get().cpu();
  std::vector<std::vector<double>> all(2), tested(2);
  OnRanks({cpu, cpu}, Settings(Normed(4), std::string(kSgd) + "test_iter: 1 test_interval: 100 "),
          [&](Solver* solver) {
            solver->Step(3);
            const int rank = solver->net()->layers()[0]->context().replica.rank;
            all[rank] = Parameters(*solver);
            solver->Test(0);
            tested[rank] = Parameters(*solver);
          });
  EXPECT_GT(Distance(all[0], all[1]), 1e-4);
  // Tests use those of rank 0, which snapshots have, too.
  EXPECT_EQ(tested[0], all[0]);
  EXPECT_EQ(tested[1], all[0]);
}

TEST(DataParallelTest, ATestIsSharedAndHasTheResultOfOneRank) {
  Device* const cpu = Runtime::Get().cpu();
  const SolverParameter settings =
      Settings(LeNet(3), std::string(kSgd) + "test_iter: 5 test_interval: 100 ");
  std::vector<std::vector<double>> expected;
  Solver alone(settings, cpu);
  for (int test = 0; test < 3; ++test) expected.push_back(alone.Test(0));
  EXPECT_NE(expected[0], expected[1]);
  for (const int ranks : {2, 3, 7}) {
    OnRanks(Cpus(ranks), settings, [&](Solver* solver) {
      for (int test = 0; test < 3; ++test) {
        EXPECT_LT(Distance(solver->Test(0), expected[test]), 1e-6) << ranks << ", test " << test;
      }
    });
  }
}

// 4, 2 and 3 ranks one after the other read the items of one order, and keep iteration and history.
TEST(DataParallelTest, AnotherNumberOfRanksResumes) {
  const TemporaryFolder folder;
  const auto settings = [&] {
    return Settings(LeNet(1), Concat(kSgd, "snapshot_prefix: '", folder / "s", "' snapshot: 3 "));
  };
  std::vector<double> history;
  const auto train = [&](int ranks, int64_t from, int64_t to) {
    OnRanks(Cpus(ranks), settings(), [&](Solver* solver) {
      const bool first = solver->net()->layers()[0]->context().replica.rank == 0;
      if (from > 0) {
        solver->Restore(Concat(folder / "s_iter_", from, ".solverstate"));
        EXPECT_EQ(solver->iter(), from);
        if (first) {
          EXPECT_EQ(solver->updater().history()[0]->DataAsDouble(), history);
        }
      }
      solver->Step(to - from);
      EXPECT_EQ(solver->last_snapshot_iter(), to);
      if (first) history = solver->updater().history()[0]->DataAsDouble();
    });
  };
  train(4, 0, 3);
  testing::internal::CaptureStderr();
  train(2, 3, 6);
  EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(),
                    "an update was by 4 items, and is by 2 from now on"));
  train(3, 6, 9);
  // 3 (4 + 2 + 3) items were read.
  Solver alone(settings(), Runtime::Get().cpu());
  Solver whole(Settings(LeNet(1)), Runtime::Get().cpu());
  alone.Restore(folder / "s_iter_9.solverstate");
  for (int i = 0; i < 27; ++i) whole.net()->Forward();
  for (int i = 0; i < 3; ++i) {
    alone.net()->Forward();
    whole.net()->Forward();
    EXPECT_EQ(alone.net()->BlobByName("data")->DataAsDouble(),
              whole.net()->BlobByName("data")->DataAsDouble());
  }
}

TEST(DataParallelTest, ReplicasThatDifferAreToldBeforeTheFirstIteration) {
  const SolverParameter usual = Settings(LeNet(2));
  const auto error = [&](const SolverParameter& other) {
    return ErrorOf([&] {
      RunRanks(Cpus(2), [&](Communicator* communicator, Device* device) {
        Solver solver(communicator->rank() == 0 ? usual : other, device);
        solver.SetCommunicator(communicator);
        solver.Step(1);
      });
    });
  };
  EXPECT_TRUE(Holds(error(Settings(LeNet(2), "base_lr: 0.125 momentum: 0.9 weight_decay: 0.01 ")),
                    "rank 1 of 2 (cpu): "));
  EXPECT_TRUE(Holds(error(Settings(LeNet(2), "base_lr: 0.125 momentum: 0.9 weight_decay: 0.01 ")),
                    "setting base_lr: 0.125; replica 0: setting base_lr: 0.05"));
  EXPECT_TRUE(Holds(error(Settings(LeNet(3))), "layer 'in': "));
  EXPECT_TRUE(Holds(error(Settings(Mixture(2))), "replica 1 has other parameters"));
  SolverParameter seeded = usual;
  seeded.set_random_seed(8);
  EXPECT_TRUE(Holds(error(seeded), "setting random_seed: 8"));
  EXPECT_EQ(ErrorOf([&] { Trained(Cpus(2), usual, 1); }), "");
}

TEST(DataParallelTest, ARankThatFailsEndsTheOthersWithItsError) {
  const std::string error = ErrorOf([&] { Trained(Cpus(3), Settings(LeNet(1, 17)), 100); });
  EXPECT_TRUE(Holds(error, "item 17 is damaged")) << error;
  EXPECT_EQ(error.find("rank "), 0u) << error;
}

TEST(DataParallelTest, RequestsOfRank0StopAll) {
  std::atomic<int> stopped{0};
  OnRanks(Cpus(2), Settings(LeNet(1)), [&](Solver* solver) {
    const bool first = solver->net()->layers()[0]->context().replica.rank == 0;
    if (first) {
      solver->SetActionFunction(
          [solver] { return solver->iter() == 4 ? SolverAction::kStop : SolverAction::kNone; });
    }
    solver->Step(10);
    EXPECT_EQ(solver->iter(), 4);
    ++stopped;
  });
  EXPECT_EQ(stopped, 2);
}

TEST(DataParallelTest, ParametersBecomeThoseOfRank0) {
  std::vector<std::vector<double>> all(2);
  const SolverParameter settings = Settings(LeNet(1));
  RunRanks(Cpus(2), [&](Communicator* communicator, Device* device) {
    Solver solver(settings, device);
    auto& weights = As<float>(*solver.net()->learnable_params()[0]);
    if (communicator->rank() == 1) weights.mutable_cpu_data()[0] = 100;
    solver.SetCommunicator(communicator);
    all[communicator->rank()] = Parameters(solver);
  });
  EXPECT_EQ(all[0], all[1]);
  EXPECT_NE(all[0][0], 100);
}

TEST(DataParallelTest, GradientsAreSummedInReduceType) {
  for (Device* device : TestDevices()) {
    const std::vector<double> expected = Trained({device, device}, Settings(LeNet(2)), 5);
    for (const auto& [type, most] :
         {std::pair<std::string, double>{"CAFFE_HALF", 2e-3}, {"CAFFE_BFLOAT16", 2e-2}}) {
      const std::vector<double> found =
          Trained({device, device},
                  Settings(LeNet(2), std::string(kSgd) + "reduce_type: " + type + " "), 5);
      EXPECT_LT(Distance(found, expected), most) << type << " " << device->info().id;
      EXPECT_GT(Distance(found, expected), 0) << type << " " << device->info().id;
    }
  }
  EXPECT_TRUE(Holds(ErrorOf([] {
                      Trained(Cpus(1), Settings(LeNet(1), "base_lr: 1 reduce_type: CAFFE_DOUBLE "),
                              0);
                    }),
                    "reduce_type is CAFFE_DOUBLE"));
}

// Each rank updates a share of the parameters by its share of the history.
TEST(DataParallelTest, SharedUpdatesHaveTheSameBits) {
  for (Device* device : TestDevices()) {
    for (const std::string rule :
         {kSgd, "type: 'Adam' base_lr: 0.002 momentum: 0.9 clip_gradients: 0.1 "}) {
      const SolverParameter plain = Settings(LeNet(1), rule);
      const SolverParameter shared = Settings(LeNet(1), rule + "shard_updates: true ");
      for (const int ranks : {2, 3}) {
        const std::vector<Device*> devices(static_cast<size_t>(ranks), device);
        EXPECT_EQ(Trained(devices, shared, 5), Trained(devices, plain, 5))
            << rule << ranks << device->info().id;
      }
    }
  }
}

TEST(DataParallelTest, SharedUpdatesContinueFromSnapshots) {
  const TemporaryFolder folder;
  const std::string adam = "type: 'Adam' base_lr: 0.002 momentum: 0.9 ";
  const auto train = [&](int ranks, bool shared, const std::string& prefix, int64_t from,
                         int64_t to) {
    const SolverParameter settings =
        Settings(LeNet(1), Concat(adam, "snapshot: 1 snapshot_prefix: '", folder / prefix,
                                  "' shard_updates: ", shared ? "true " : "false "));
    OnRanks(Cpus(ranks), settings, [&](Solver* solver) {
      if (from > 0) solver->Restore(Concat(folder / prefix, "_iter_", from, ".solverstate"));
      solver->Step(to - from);
    });
  };
  const auto state = [&](const std::string& prefix, int64_t iteration) {
    SolverState read;
    ReadBinaryProto(Concat(folder / prefix, "_iter_", iteration, ".solverstate"), &read);
    std::string history;
    for (const BlobProto& blob : read.history()) history += blob.SerializeAsString();
    return history;
  };
  for (const bool shared : {false, true}) {
    const std::string prefix = shared ? "shared" : "plain";
    train(3, shared, prefix, 0, 3);
    train(2, shared, prefix, 3, 5);
    EXPECT_EQ(state(prefix, 3), state("plain", 3));
    EXPECT_EQ(state(prefix, 5), state("plain", 5));
  }
  EXPECT_GT(state("plain", 5).size(), 1000u);
  EXPECT_NE(state("plain", 5), state("plain", 3));
}

}  // namespace
}  // namespace caffe
