#include "caffe/solver/solver.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// y = x w + b, loss = sum (y - target)^2 / (2 * 4).
constexpr char kNet[] = R"(
  name: 'line'
  layer { name: 'in' type: 'Input' top: 'x' top: 'target'
          input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
          param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
          inner_product_param { num_output: 2 weight_filler { type: 'gaussian' std: 0.5 } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'target' top: 'loss' }
)";

SolverParameter Parameter(const std::string& text, const std::string& net = kNet) {
  SolverParameter parameter;
  ParseTextProto("base_lr: 0.05 random_seed: 7 " + text, "test", &parameter);
  if (!parameter.has_lr_policy()) parameter.set_lr_policy("fixed");
  const int given = parameter.has_net() + parameter.has_net_param() + parameter.has_train_net();
  if (!given) ParseTextProto(net, "net", parameter.mutable_net_param());
  return parameter;
}

const std::vector<double> kInput = TestNumbers(12, 1), kTarget = TestNumbers(8, 2);

void FillInputs(Net* net) {
  net->BlobByName("x")->SetData(kInput);
  net->BlobByName("target")->SetData(kTarget);
}

std::unique_ptr<Solver> Make(const SolverParameter& parameter, Device* device = TestDevices()[0]) {
  auto solver = std::make_unique<Solver>(parameter, device);
  FillInputs(solver->net());
  for (const auto& net : solver->test_nets()) FillInputs(net.get());
  return solver;
}

std::vector<double> Weights(Solver& solver) {
  std::vector<double> all;
  for (BlobBase* blob : solver.net()->learnable_params()) {
    const std::vector<double> values = blob->DataAsDouble();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Loss of the linear model, and one step of gradient descent with momentum, in double.
struct Line {
  std::vector<double> w, b{0, 0}, w_history = std::vector<double>(6, 0), b_history{0, 0};
  double Step(double rate, double momentum, double decay) {
    double loss = 0;
    std::vector<double> dw(6, 0), db(2, 0);
    for (int n = 0; n < 4; ++n) {
      for (int o = 0; o < 2; ++o) {
        double y = b[o];
        for (int i = 0; i < 3; ++i) y += kInput[n * 3 + i] * w[o * 3 + i];
        const double d = y - kTarget[n * 2 + o];
        loss += d * d / 8;
        for (int i = 0; i < 3; ++i) dw[o * 3 + i] += d / 4 * kInput[n * 3 + i];
        db[o] += d / 4;
      }
    }
    for (int i = 0; i < 6; ++i) {
      w_history[i] = momentum * w_history[i] + rate * (dw[i] + decay * w[i]);
      w[i] -= w_history[i];
    }
    for (int i = 0; i < 2; ++i) {
      b_history[i] = momentum * b_history[i] + 2 * rate * db[i];
      b[i] -= b_history[i];
    }
    return loss;
  }
};

class SolverDeviceTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SolverDeviceTest, FollowsGradientDescent) {
  const DataType type = GetParam().type;
  // The first automatic scale, 65536, overflows half and costs an update.
  SolverParameter parameter = Parameter("momentum: 0.9 weight_decay: 0.1 loss_scale_init: 1024");
  parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
  auto solver = Make(parameter, GetParam().device);
  EXPECT_EQ(type == kHalf || type == kBfloat16, solver->updater().adapts_loss_scale());
  Line line;
  line.w = solver->net()->learnable_params()[0]->DataAsDouble();
  double loss = 0, first = 0;
  for (int i = 0; i < 10; ++i) {
    loss = line.Step(0.05, 0.9, 0.1);
    if (i == 0) first = loss;
  }
  solver->Step(10);
  EXPECT_LT(loss, first);
  EXPECT_EQ(10, solver->iter());
  std::vector<double> expected = line.w;
  expected.insert(expected.end(), line.b.begin(), line.b.end());
  const double tolerance = std::max(1e-6, Tolerance(type));
  ExpectNear(Weights(*solver), expected, tolerance, "weights");
  EXPECT_NEAR(loss, solver->SmoothedLoss(), tolerance);
}

TEST_P(SolverDeviceTest, WaitsForNothing) {
  SolverParameter parameter =
      Parameter("momentum: 0.9 average_loss: 3 clip_gradients: 1 type: 'Adam'");
  parameter.set_data_type(static_cast<DataTypeProto>(GetParam().type.info().proto));
  auto solver = Make(parameter, GetParam().device);
  solver->Step(2);
  GetParam().device->ResetCounters();
  solver->Step(5);
  const DeviceCounters counters = GetParam().device->counters();
  EXPECT_EQ(0, counters.downloads);
  EXPECT_EQ(0, counters.syncs);
  EXPECT_EQ(0, counters.builds);
  EXPECT_EQ(0, counters.allocations);
}

INSTANTIATE_TEST_SUITE_P(Devices, SolverDeviceTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Whether sharing came before the first step or between two.
TEST(SolverTest, TrainsTheWeightsThatItsNetShares) {
  const SolverParameter parameter = Parameter("momentum: 0.9 weight_decay: 0.1");
  SolverParameter other_parameter = parameter;
  other_parameter.set_random_seed(8);
  for (Device* device : TestDevices()) {
    for (const int before : {0, 2}) {
      auto solver = Make(parameter, device), reference = Make(parameter, device);
      const auto other = Make(other_parameter, device);
      solver->Step(before);
      reference->Step(before);
      solver->net()->ShareTrainedLayersWith(*other->net());
      for (size_t i = 0; i < solver->net()->params().size(); ++i) {
        reference->net()->params()[i]->SetData(other->net()->params()[i]->DataAsDouble());
      }
      solver->Step(3);
      reference->Step(3);
      EXPECT_EQ(Weights(*solver), Weights(*reference)) << device->info().id << " " << before;
      EXPECT_EQ(Weights(*other), Weights(*reference)) << device->info().id << " " << before;
    }
  }
}

TEST(SolverTest, IterSizeSumsBatches) {
  // The same batch three times, averaged, is that batch.
  auto once = Make(Parameter("momentum: 0.5"));
  auto thrice = Make(Parameter("momentum: 0.5 iter_size: 3"));
  once->Step(4);
  thrice->Step(4);
  ExpectNear(Weights(*thrice), Weights(*once), 1e-6, "weights");
  EXPECT_NEAR(once->SmoothedLoss(), thrice->SmoothedLoss(), 1e-6);
}

TEST(SolverTest, SmoothedLossIsTheMeanOfTheLast) {
  auto solver = Make(Parameter("average_loss: 3"));
  Line line;
  line.w = solver->net()->learnable_params()[0]->DataAsDouble();
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(line.Step(0.05, 0, 0));
  solver->Step(2);
  EXPECT_NEAR((losses[0] + losses[1]) / 2, solver->SmoothedLoss(), 1e-6);
  solver->Step(3);
  EXPECT_NEAR((losses[2] + losses[3] + losses[4]) / 3, solver->SmoothedLoss(), 1e-6);
}

TEST(SolverTest, TheLossAfterTheLastIterationIsThatOfOneForward) {
  const auto solver =
      Make(Parameter("iter_size: 3 max_iter: 1 display: 1 snapshot_after_train: false"));
  testing::internal::CaptureStderr();
  solver->Solve();
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string line = Concat("] Iteration 1, loss = ", solver->net()->Loss(), "\n");
  EXPECT_NE(log.find(line), std::string::npos) << line << log;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SolverTest, ALossThatIsNotFiniteIsSaidOnce) {
  constexpr char kText[] = "max_iter: 6 snapshot_after_train: false ";
  for (Device* device : TestDevices()) {
    for (const std::string display : {"display: 1", "display: 0", "display: 4 average_loss: 3"}) {
      const auto solver = Make(Parameter(kText + display), device);
      testing::internal::CaptureStderr();
      solver->Step(2);
      solver->SmoothedLoss();
      EXPECT_EQ(0, Count(testing::internal::GetCapturedStderr(), "the loss is"));
      std::vector<double> input = kInput;
      input[3] = std::nan("");
      solver->net()->BlobByName("x")->SetData(input);
      testing::internal::CaptureStderr();
      solver->Solve();
      solver->Step(2);
      solver->SmoothedLoss();
      const std::string log = testing::internal::GetCapturedStderr();
      EXPECT_EQ(1, Count(log, "the loss is nan")) << log;
      for (const char* part : {"base_lr (0.05)", "CAFFE_DEBUG=nan", "data"}) {
        EXPECT_EQ(1, Count(log.substr(log.find("the loss is nan")), part)) << part << "\n" << log;
      }
    }
  }
}

// Scores of a net that has diverged: the accuracy is 0, and a warning names the layer, once.
TEST(SolverTest, ScoresThatAreNotFiniteAreSaidOnce) {
  constexpr char kScores[] = R"(
    layer { name: 'in' type: 'Input' top: 'x' top: 'label'
            input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
            inner_product_param { num_output: 3 bias_filler { value: 0.5 } } }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss'
            include { phase: TRAIN } }
    layer { name: 'hits' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 'hits'
            include { phase: TEST } }
  )";
  for (Device* device : TestDevices()) {
    Solver solver(
        Parameter("max_iter: 4 snapshot_after_train: false test_iter: 2 test_interval: 1", kScores),
        device);
    testing::internal::CaptureStderr();
    solver.Test(0);
    EXPECT_EQ(0, Count(testing::internal::GetCapturedStderr(), "scores that are not finite"));
    solver.net()->LayerByName("ip")->blobs()[1]->SetData({std::nan(""), 0, 0});
    testing::internal::CaptureStderr();
    EXPECT_EQ(solver.Test(0), std::vector<double>{0});
    solver.Solve();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(1, Count(log, "hits (Accuracy): there are scores that are not finite")) << log;
  }
}

// Gradients of half beyond 65504 are infinite: with a constant scale the weights stay what they
// were, and a warning names the setting. Once the targets are small again training goes on.
TEST(SolverTest, AConstantLossScaleThatIsTooLargeIsSaidAndHarmsNothing) {
  for (Device* device : TestDevices()) {
    SolverParameter parameter =
        Parameter("loss_scale: 32768 max_iter: 3 snapshot_after_train: false");
    parameter.mutable_net_param()->set_data_type(CAFFE_HALF);
    const auto solver = Make(parameter, device);
    solver->net()->BlobByName("target")->SetData(std::vector<double>(8, 100));
    const std::vector<double> before = Weights(*solver);
    testing::internal::CaptureStderr();
    solver->Solve();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(before, Weights(*solver)) << device->info().id;
    EXPECT_EQ(1, Count(log, "3 of 3 updates were left out")) << log;
    EXPECT_EQ(1, Count(log, "constant loss_scale of 32768")) << log;
    EXPECT_EQ(0, Count(log, "the loss is")) << log;
    // Differences of 0.001 at most: their gradients fit.
    for (BlobBase* blob : solver->net()->learnable_params()) {
      blob->SetData(std::vector<double>(blob->count(), 0));
    }
    solver->net()->BlobByName("target")->SetData(std::vector<double>(8, 0.001));
    solver->Step(1);
    for (const double value : Weights(*solver)) EXPECT_TRUE(std::isfinite(value));
    EXPECT_NE(std::vector<double>(Weights(*solver).size(), 0), Weights(*solver));
  }
}

TEST(SolverTest, AnUpdateIsAnIteration) {
  const auto solver = Make(Parameter("lr_policy: 'step' stepsize: 2 gamma: 0.1"));
  for (int i = 0; i < 5; ++i) {
    solver->net()->ClearParamDiffs();
    solver->net()->Forward();
    solver->net()->Backward();
    solver->ApplyUpdate();
  }
  EXPECT_EQ(solver->iter(), 5);
  EXPECT_NEAR(solver->Rate(), 0.05 * 0.01, 1e-9);
}

TEST(SolverTest, DoesNotTrainCodes) {
  SolverParameter parameter = Parameter("");
  LayerParameter* layer = parameter.mutable_net_param()->mutable_layer(1);
  layer->set_compute_data_type(CAFFE_INT8_QUANTIZED);
  const auto solver = Make(parameter);
  try {
    solver->Step(1);
    FAIL() << "trained codes";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ip (InnerProduct): has no backward pass"),
              std::string::npos)
        << error.what();
  }
}

TEST(SolverTest, LogsAsCaffeDoes) {
  testing::internal::CaptureStderr();
  auto solver = Make(
      Parameter("display: 2 max_iter: 4 test_iter: 2 test_interval: 4 lr_policy: 'step' gamma: 0.1 "
                "stepsize: 2 snapshot_after_train: false test_compute_loss: true"));
  solver->Solve();
  const std::string log = testing::internal::GetCapturedStderr();
  size_t at = 0;
  const auto next = [&](const std::string& text) {
    at = log.find(text, at);
    EXPECT_NE(std::string::npos, at) << text << " is not in, or not in this place of\n" << log;
    if (at == std::string::npos) at = 0;
  };
  next("Initializing solver from parameters: \n");
  next("] Creating training net specified in net_param.");
  next("] Creating test net (#0) specified by net_param");
  next("] Solver scaffolding done.");
  next("] Solving line");
  next("] Learning Rate Policy: step");
  next("] Iteration 0, Testing net (#0)");
  next("] Test loss: ");
  next("]     Test net output #0: loss = ");
  next(" (* 1 = ");
  next("] Iteration 0 (0 iter/s, ");
  next("s/2 iters), loss = ");
  next("]     Train net output #0: loss = ");
  next("] Iteration 0, lr = 0.05\n");
  next("] Iteration 2 (");
  next("] Iteration 2, lr = 0.005\n");
  next("] Iteration 4, loss = ");
  next("] Iteration 4, Testing net (#0)");
  next("] Optimization Done.");
}

TEST(SolverTest, LogsStepsAndDebugLinesAsCaffeDoes) {
  auto solver =
      Make(Parameter("display: 1 max_iter: 2 lr_policy: 'multistep' gamma: 0.1 "
                     "stepvalue: 1 debug_info: true clip_gradients: 1e-3"));
  testing::internal::CaptureStderr();
  solver->Step(2);
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t step = log.find("] MultiStep Status: Iteration 1, step = 1\n");
  ASSERT_NE(std::string::npos, step) << log;
  EXPECT_EQ(log.find("] Iteration 1, lr = 0.005\n"), log.find("] Iteration 1, lr = ", step)) << log;
  EXPECT_NE(std::string::npos, log.find("]     [Backward] All net params (data, diff): L1 norm ="));
  EXPECT_NE(std::string::npos, log.find("] Gradient clipping: scaling down gradients (L2 norm "));
}

TEST(SolverTest, WeightsMayBeAList) {
  TemporaryFolder folder;
  auto first = Make(Parameter("max_iter: 1 snapshot_prefix: '" + (folder / "s") + "'"));
  first->Solve();
  const std::string file = folder / "s_iter_1.caffemodel";
  SolverParameter parameter = Parameter("weights: ' " + file + ", " + file + "'");
  parameter.set_random_seed(99);  // other first weights
  auto second = Make(parameter);
  EXPECT_EQ(Weights(*first), Weights(*second));
  EXPECT_THROW(Make(Parameter("weights: '" + file + ",missing.caffemodel'")), Error);
}

TEST(SolverTest, ARequestToStopMayBeRepeated) {
  auto solver = Make(Parameter("max_iter: 100"));
  solver->SetActionFunction([] { return SolverAction::kStop; });
  solver->Step(100);
  EXPECT_EQ(1, solver->iter());
}

TEST(SolverTest, TestsTheWeightsThatItTrains) {
  auto solver = Make(Parameter("test_iter: 3 test_interval: 100"));
  solver->Step(3);
  const std::vector<double> means = solver->Test(0);
  solver->net()->Forward();
  ASSERT_EQ(1u, means.size());
  EXPECT_NEAR(solver->net()->Loss(), means[0], 1e-6);
}

struct RuleAndType {
  std::string solver;
  DataType type;
};
void PrintTo(const RuleAndType& value, std::ostream* out) {
  *out << value.solver << " " << value.type.name();
}

class SnapshotTest : public testing::TestWithParam<RuleAndType> {};

TEST_P(SnapshotTest, ResumesWithTheSameBits) {
  TemporaryFolder folder;
  SolverParameter parameter = Parameter(
      GetParam().solver + " snapshot: 3 snapshot_prefix: '" + (folder / "line") +
      "' lr_policy: 'inv' gamma: 0.1 power: 0.5 " + "weight_decay: 0.01 loss_scale_window: 2");
  parameter.set_data_type(static_cast<DataTypeProto>(GetParam().type.info().proto));
  auto whole = Make(parameter);
  whole->Step(6);
  ASSERT_TRUE(std::filesystem::exists(folder / "line_iter_3.caffemodel"));
  ASSERT_TRUE(std::filesystem::exists(folder / "line_iter_6.solverstate"));

  parameter.set_snapshot(0);
  parameter.set_random_seed(99);  // other first weights
  auto resumed = Make(parameter);
  resumed->Restore(folder / "line_iter_3.solverstate");
  EXPECT_EQ(3, resumed->iter());
  resumed->Step(3);
  EXPECT_EQ(Weights(*whole), Weights(*resumed));
  EXPECT_EQ(whole->net()->step_state().Get(StepState::kLossScale),
            resumed->net()->step_state().Get(StepState::kLossScale));
}

INSTANTIATE_TEST_SUITE_P(Rules, SnapshotTest,
                         testing::Values(RuleAndType{"momentum: 0.9", kFloat},
                                         RuleAndType{"type: 'Adam' momentum: 0.9", kFloat},
                                         RuleAndType{"type: 'AdaDelta' momentum: 0.9", kDouble},
                                         RuleAndType{"momentum: 0.9", kHalf}),
                         [](const auto& info) { return "case" + std::to_string(info.index); });

TEST(SnapshotFilesTest, AreBvlcs) {
  TemporaryFolder folder;
  auto solver =
      Make(Parameter("type: 'Adam' max_iter: 2 snapshot_prefix: '" + (folder / "s") + "'"));
  solver->Solve();
  SolverState state;
  ReadBinaryProto(folder / "s_iter_2.solverstate", &state);
  EXPECT_EQ(2, state.iter());
  EXPECT_EQ(folder / "s_iter_2.caffemodel", state.learned_net());
  ASSERT_EQ(4, state.history_size());  // two of weights and bias, then two more
  EXPECT_EQ(6, state.history(2).data_size());
  EXPECT_FALSE(state.has_loss_scale());
  NetParameter net;
  ReadBinaryProto(folder / "s_iter_2.caffemodel", &net);
  EXPECT_EQ(2, net.layer(1).blobs_size());

  // Moved together, and read from another working directory: found beside the state.
  TemporaryFolder other;
  for (const char* name : {"s_iter_2.solverstate", "s_iter_2.caffemodel"}) {
    std::filesystem::rename(folder / name, other / name);
  }
  auto again = Make(Parameter("type: 'Adam'"));
  again->Restore(other / "s_iter_2.solverstate");
  EXPECT_EQ(Weights(*solver), Weights(*again));

  auto sgd = Make(Parameter("type: 'SGD'"));
  EXPECT_THROW(sgd->Restore(other / "s_iter_2.solverstate"), Error);
  EXPECT_EQ(0, sgd->iter());
}

TEST(SnapshotFilesTest, WeightsAreNoSolverState) {
  TemporaryFolder folder;
  auto solver = Make(Parameter("snapshot_prefix: '" + (folder / "s") + "'"));
  solver->Step(1);
  solver->Snapshot();
  const std::string weights = folder / "s_iter_1.caffemodel";
  const std::string error = ErrorOf([&] { solver->Restore(weights); });
  for (const std::string& part :
       {weights, std::string("not a solver state"), std::string("caffemodel has none")}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  solver->Restore(folder / "s_iter_1.solverstate");
}

TEST(SnapshotFilesTest, UnwritablePlaceIsAnErrorAtOnce) {
  EXPECT_THROW(Make(Parameter("snapshot: 10 snapshot_prefix: '/nowhere/at/all/s'")), Error);
  auto solver = Make(Parameter("max_iter: 1 snapshot_prefix: '/nowhere/at/all/s'"));
  EXPECT_THROW(solver->Solve(), Error);
  EXPECT_EQ(0, solver->iter());
}

TEST(SolverTest, AnswersRequests) {
  TemporaryFolder folder;
  auto solver = Make(Parameter("max_iter: 100 snapshot_prefix: '" + (folder / "s") + "'"));
  int asked = 0;
  solver->SetActionFunction([&asked] {
    ++asked;
    return asked == 2   ? SolverAction::kSnapshot
           : asked == 5 ? SolverAction::kStop
                        : SolverAction::kNone;
  });
  solver->Solve();
  EXPECT_LT(solver->iter(), 100);
  EXPECT_TRUE(std::filesystem::exists(folder / "s_iter_2.caffemodel"));
  EXPECT_TRUE(std::filesystem::exists(
      folder / ("s_iter_" + std::to_string(solver->iter()) + ".solverstate")));
}

TEST(SolverTest, CallbacksComeInOrder) {
  struct Recorder : Solver::Callback {
    void OnStart() override { text += "s"; }
    void OnGradientsReady() override { text += "g"; }
    void OnTest(int, int done, int of) override { text += done == of ? "T" : "t"; }
    std::string text;
  } recorder;
  auto solver = Make(Parameter("test_iter: 2 test_interval: 2"));
  solver->AddCallback(&recorder);
  solver->Step(3);
  EXPECT_EQ("tTsgsgtTsg", recorder.text);
}

TEST(SolverTest, StatesChooseLayers) {
  SolverParameter parameter = Parameter(
      "train_state { stage: 'deep' } test_iter: 1 test_interval: 9 test_state { stage: 'plain' }",
      std::string(kNet) +
          "layer { name: 'extra' type: 'Input' top: 'z' input_param { shape { dim: 1 } } "
          "include { stage: 'deep' } }");
  Solver solver(parameter, TestDevices()[0]);
  EXPECT_TRUE(solver.net()->has_layer("extra"));
  EXPECT_EQ(TRAIN, solver.net()->phase());
  EXPECT_FALSE(solver.test_nets()[0]->has_layer("extra"));
  EXPECT_EQ(TEST, solver.test_nets()[0]->phase());
}

TEST(SolverTest, WrongParametersAreErrors) {
  const auto expect_error = [](const std::string& text) {
    EXPECT_THROW(Make(Parameter(text)), Error) << text;
  };
  expect_error("lr_policy: 'cosine'");
  expect_error("type: 'Sgd'");
  expect_error("test_iter: 1");  // without test_interval
  expect_error("test_iter: 1 test_interval: 1 test_state {} test_state {}");
  expect_error("net: 'missing.prototxt'");
  expect_error("average_loss: 0");
  expect_error("eval_type: 'detection'");
  expect_error("snapshot: -5 snapshot_prefix: 's'");
  for (const char* iterations : {"0", "-1"}) {
    expect_error(Concat("test_iter: ", iterations, " test_interval: 1000"));
  }
  SolverParameter none;
  none.set_lr_policy("fixed");
  EXPECT_THROW(Solver(none, TestDevices()[0]), Error);
}

}  // namespace
}  // namespace caffe
