#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

// Training that repeats, and resumes, bit for bit: data in random crops, mirrored, dropout, batches
// that do not divide the database, a test net that reads on from where it was.
namespace caffe {
namespace {

struct Case {
  DeviceType place;
  std::string rule;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DeviceType& place : DevicesAndTypes({kFloat, kHalf})) {
    for (const char* rule : {"type: 'SGD' momentum: 0.9", "type: 'Adam' momentum: 0.9"}) {
      cases.push_back({place, rule});
    }
  }
  return cases;
}

class ResumeTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { MakeDatabase(folder_ / "records", 22, 2, 9, 9); }

  SolverParameter Parameter(int64_t seed) const {
    const std::string data =
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
        "        data_param { source: '" +
        (folder_ / "records") +
        "' backend: LMDB batch_size: 4 "
        "                     rand_skip: 5 } "
        "        transform_param { crop_size: 8 mirror: true scale: 0.004 } } ";
    const std::string net =
        data +
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
        "        convolution_param { num_output: 6 kernel_size: 3 "
        "                            weight_filler { type: 'xavier' } } } "
        "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' } "
        "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' "
        "        pooling_param { kernel_size: 2 stride: 2 pool: STOCHASTIC } } "
        "layer { name: 'drop' type: 'Dropout' bottom: 'pool' top: 'pool' } "
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' "
        "        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } } "
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.01 lr_policy: 'step' stepsize: 4 gamma: 0.5 weight_decay: 0.001 iter_size: 2 "
        "test_iter: 3 test_interval: 5 loss_scale_init: 1024 loss_scale_window: 3 " +
            GetParam().rule,
        "test", &parameter);
    ParseTextProto(net, "net", parameter.mutable_net_param());
    parameter.set_data_type(static_cast<DataTypeProto>(GetParam().place.type.info().proto));
    parameter.set_random_seed(seed);
    parameter.set_snapshot_prefix(folder_ / "s");
    return parameter;
  }

  std::unique_ptr<Solver> Make(int64_t seed, int snapshot = 0) const {
    SolverParameter parameter = Parameter(seed);
    parameter.set_snapshot(snapshot);
    auto solver = std::make_unique<Solver>(parameter, GetParam().place.device);
    solver->net()->Keep({"pool"});  // State reads it after training
    return solver;
  }

  static TrainingState State(Solver& solver) {
    return StateOf(solver, {"data", "label", "pool", "loss"});
  }

  TemporaryFolder folder_;
};

TEST_P(ResumeTest, TwoRunsOfASeedAreEqual) {
  auto one = Make(7), two = Make(7), other = Make(8);
  one->Step(7);
  two->Step(7);
  other->Step(7);
  const TrainingState state = State(*one);
  EXPECT_EQ("", FirstDifference(state, State(*two)));
  EXPECT_NE("", FirstDifference(state, State(*other)));
}

TEST_P(ResumeTest, AResumedRunEqualsAnUninterruptedOne) {
  auto whole = Make(7, 6);
  whole->Step(13);
  // Another seed: the state brings its own.
  auto resumed = Make(99);
  resumed->Restore(folder_ / "s_iter_6.solverstate");
  EXPECT_EQ(6, resumed->iter());
  resumed->Step(7);
  EXPECT_EQ("", FirstDifference(State(*whole), State(*resumed)));
}

// Solvers that have already run go back, too.
TEST_P(ResumeTest, RestoreGoesBack) {
  auto solver = Make(7, 6);
  solver->Step(10);
  const TrainingState state = State(*solver);
  solver->Restore(folder_ / "s_iter_6.solverstate");
  solver->Step(4);
  EXPECT_EQ("", FirstDifference(state, State(*solver)));
}

INSTANTIATE_TEST_SUITE_P(All, ResumeTest, testing::ValuesIn(Cases()), [](const auto& info) {
  const bool adam = info.param.rule.find("Adam") != std::string::npos;
  return TestName(info.param.place) + (adam ? "_adam" : "_sgd");
});

// Rows of two HDF5 files in a new order in each epoch, batches across the ends of both.
class ShuffledResumeTest : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    std::string list;
    for (int file = 0; file < 2; ++file) {
      const std::string path = folder_ / ("rows" + std::to_string(file) + ".h5");
      const std::vector<double> rows = TestNumbers(7 * 6, file + 1);
      std::vector<float> data(rows.begin(), rows.end()), labels(7);
      for (int i = 0; i < 7; ++i) labels[i] = static_cast<float>((file + i) % 3);
      Hdf5Writer writer(path);
      writer.Write("/data", {7, 6}, data.data());
      writer.Write("/label", {7}, labels.data());
      writer.Commit();
      list += path + "\n";
    }
    folder_.Put("list.txt", list);
  }

  std::unique_ptr<Solver> Make(int64_t seed, int snapshot) const {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 type: 'SGD' net_param { "
        "layer { name: 'data' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { "
        "        batch_size: 4 shuffle: true source: '" +
            (folder_ / "list.txt") +
            "' } } "
            "layer { name: 'drop' type: 'Dropout' bottom: 'data' top: 'drop' } "
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip' "
            "        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } "
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
            "        top: 'loss' } }",
        "test", &parameter);
    parameter.set_random_seed(seed);
    parameter.set_snapshot(snapshot);
    parameter.set_snapshot_prefix(folder_ / "s");
    return std::make_unique<Solver>(parameter, GetParam().device);
  }

  static TrainingState State(Solver& solver) { return StateOf(solver, {"data"}); }

  TemporaryFolder folder_;
};

TEST_P(ShuffledResumeTest, AResumedRunEqualsAnUninterruptedOne) {
  auto whole = Make(7, 5);
  whole->Step(12);
  auto resumed = Make(99, 0);
  resumed->Restore(folder_ / "s_iter_5.solverstate");
  resumed->Step(7);
  EXPECT_EQ("", FirstDifference(State(*whole), State(*resumed)));
  auto other = Make(99, 0);
  other->Step(12);
  EXPECT_NE("", FirstDifference(State(*whole), State(*other)));
}

INSTANTIATE_TEST_SUITE_P(All, ShuffledResumeTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

TEST(RunStateTest, OfAnotherLayerIsAnError) {
  TemporaryFolder folder;
  MakeDatabase(folder / "records", 3, 1, 2, 2);
  NetParameter parameter;
  ParseTextProto("layer { name: 'data' type: 'Data' top: 'data' data_param { source: '" +
                     (folder / "records") + "' backend: LMDB batch_size: 1 } }",
                 "net", &parameter);
  Net net(parameter, {});
  NetRunState state;
  net.WriteRunState(&state);
  ASSERT_EQ(1, state.layer_size());
  ASSERT_EQ(2, state.layer(0).value_size());
  state.mutable_layer(0)->add_value(1);
  const std::string error = ErrorOf([&] { net.ReadRunState(state); });
  EXPECT_NE(std::string::npos, error.find("data (Data)")) << error;
}

}  // namespace
}  // namespace caffe
