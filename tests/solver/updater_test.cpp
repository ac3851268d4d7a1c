#include "caffe/solver/updater.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Three parameters, the second of other multipliers, and what an update should make of them.
class UpdateTester {
 public:
  UpdateTester(const std::string& text, Device* device, DataType type, bool narrow = false)
      : state(device), type_(type) {
    ParseTextProto(text, "test", &parameter);
    const std::vector<Shape> shapes{{3, 5}, {7}, {2, 3, 4}};
    for (size_t i = 0; i < shapes.size(); ++i) {
      owned_.push_back(MakeBlob(type, device, shapes[i], "p" + std::to_string(i)));
      w.push_back(TestNumbers(owned_[i]->count(), 10 + i));
      owned_[i]->SetData(w[i]);
      learnable.blobs.push_back(owned_[i].get());
      learnable.lr_mult.push_back(i == 1 ? 2.f : 1.f);
      learnable.decay_mult.push_back(i == 1 ? 0.f : 1.f);
      h.push_back(std::vector<double>(w[i].size(), 0));
      k.push_back(h[i]);
    }
    // A second layer that uses parameter 2.
    shared = MakeBlob(type, device, shapes[2], "shared");
    shared->ShareData(*owned_[2]);
    updater = std::make_unique<Updater>(parameter, learnable, &state, device, narrow);
  }

  // Gradients for `iteration` times `scale`, added to what is there.
  void AddGradients(int iteration, double scale = 1) {
    for (size_t i = 0; i < owned_.size(); ++i) {
      const std::vector<double> g = TestNumbers(w[i].size(), 100 + 7 * iteration + i);
      std::vector<double> sum = owned_[i]->DiffAsDouble();
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += scale * g[j];
      owned_[i]->SetDiff(sum);
    }
  }

  // One step of the rule in plain C++ with the gradients of `iterations`, summed.
  void Reference(int t, double rate, const std::vector<int>& iterations) {
    std::vector<std::vector<double>> gradients;
    double squares = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      std::vector<double> g(w[i].size(), 0);
      for (int iteration : iterations) {
        const std::vector<double> more = TestNumbers(g.size(), 100 + 7 * iteration + i);
        for (size_t j = 0; j < g.size(); ++j) g[j] += more[j];
      }
      for (double value : g) squares += value * value;
      gradients.push_back(g);
    }
    const double clip = parameter.clip_gradients();
    const double factor =
        (clip >= 0 && std::sqrt(squares) > clip ? clip / std::sqrt(squares) : 1.0) /
        static_cast<double>(iterations.size());
    const double mu = parameter.momentum(), beta2 = parameter.momentum2();
    const double delta = parameter.delta(), rho = parameter.rms_decay();
    const std::string& rule = parameter.type();
    for (size_t i = 0; i < w.size(); ++i) {
      const double r = rate * learnable.lr_mult[i];
      const double decay = parameter.weight_decay() * learnable.decay_mult[i];
      for (size_t j = 0; j < w[i].size(); ++j) {
        double& x = w[i][j];
        double& a = h[i][j];
        double& b = k[i][j];
        const double sign = x > 0 ? 1 : x < 0 ? -1 : 0;
        const double g =
            gradients[i][j] * factor + decay * (parameter.regularization_type() == "L1" ? sign : x);
        double step = 0;
        if (rule == "SGD") {
          step = a = mu * a + r * g;
        } else if (rule == "Nesterov") {
          const double old = a;
          a = mu * a + r * g;
          step = (1 + mu) * a - mu * old;
        } else if (rule == "AdaGrad") {
          a += g * g;
          step = r * g / (std::sqrt(a) + delta);
        } else if (rule == "RMSProp") {
          a = rho * a + (1 - rho) * g * g;
          step = r * g / (std::sqrt(a) + delta);
        } else if (rule == "AdaDelta") {
          a = mu * a + (1 - mu) * g * g;
          const double u = g * std::sqrt((b + delta) / (a + delta));
          b = mu * b + (1 - mu) * u * u;
          step = r * u;
        } else {
          a = mu * a + (1 - mu) * g;
          b = beta2 * b + (1 - beta2) * g * g;
          step = r * std::sqrt(1 - std::pow(beta2, t + 1)) / (1 - std::pow(mu, t + 1)) * a /
                 (std::sqrt(b) + delta);
        }
        x -= step;
      }
    }
  }

  void ExpectParameters(const std::string& what) {
    // The rate travels as float, also to double parameters.
    const double tolerance = type_ == kDouble ? 1e-7 : 2e-6;
    for (size_t i = 0; i < w.size(); ++i) {
      ExpectNear(owned_[i]->DataAsDouble(), w[i], tolerance, what + " parameter");
      ExpectNear(updater->history()[i]->DataAsDouble(), h[i], tolerance, what + " history");
      if (updater->history().size() > w.size()) {
        ExpectNear(updater->history()[w.size() + i]->DataAsDouble(), k[i], tolerance,
                   what + " second history");
      }
    }
    EXPECT_EQ(shared->DataAsDouble(), owned_[2]->DataAsDouble());
  }

  SolverParameter parameter;
  LearnableParameters learnable;
  StepState state;
  std::shared_ptr<BlobBase> shared;
  std::unique_ptr<Updater> updater;
  std::vector<std::vector<double>> w, h, k;

 private:
  DataType type_;
  std::vector<std::shared_ptr<BlobBase>> owned_;
};

class UpdaterTest : public testing::TestWithParam<DeviceType> {
 protected:
  // Some steps of different rates.
  void Run(const std::string& text) {
    UpdateTester tester(text, GetParam().device, GetParam().type);
    const int size = tester.parameter.iter_size();
    for (int t = 0; t < 4; ++t) {
      const double rate = 0.125 / (1 << t);
      tester.updater->ClearDiffs();
      std::vector<int> iterations;
      for (int i = 0; i < size; ++i) {
        iterations.push_back(t * size + i);
        tester.AddGradients(iterations.back());
      }
      tester.updater->Update(rate, t);
      tester.Reference(t, rate, iterations);
    }
    tester.ExpectParameters(text);
  }
};

TEST_P(UpdaterTest, Rules) {
  Run("type: 'SGD' momentum: 0.9");
  Run("type: 'Nesterov' momentum: 0.9");
  Run("type: 'AdaGrad' delta: 0.001");
  Run("type: 'RMSProp' rms_decay: 0.9 delta: 0.001");
  Run("type: 'AdaDelta' momentum: 0.9 delta: 0.001");
  Run("type: 'Adam' momentum: 0.9 momentum2: 0.99 delta: 0.001");
}

TEST_P(UpdaterTest, WeightDecay) {
  Run("type: 'SGD' weight_decay: 0.25");
  Run("type: 'SGD' weight_decay: 0.25 regularization_type: 'L1' momentum: 0.5");
  Run("type: 'Adam' momentum: 0.9 momentum2: 0.99 delta: 0.001 weight_decay: 0.25");
}

// The threshold acts on the sum over iter_size, before decay is added.
TEST_P(UpdaterTest, ClipsThenNormalizes) {
  Run("type: 'SGD' clip_gradients: 0.5");
  Run("type: 'SGD' clip_gradients: 1000");
  Run("type: 'SGD' iter_size: 3 momentum: 0.9");
  Run("type: 'SGD' iter_size: 3 clip_gradients: 0.5 weight_decay: 0.25");
}

TEST_P(UpdaterTest, ConstantLossScaleIsTakenOut) {
  UpdateTester tester("type: 'SGD' loss_scale: 256 clip_gradients: 0.5 weight_decay: 0.5",
                      GetParam().device, GetParam().type);
  EXPECT_EQ(256, tester.state.Get(StepState::kLossScale));
  tester.AddGradients(0, 256);
  tester.updater->Update(0.5, 0);
  tester.Reference(0, 0.5, {0});
  tester.ExpectParameters("loss scale");
}

TEST_P(UpdaterTest, LossScaleAdapts) {
  const std::string text = "type: 'SGD' momentum: 0.5 loss_scale_init: 1024 loss_scale_window: 2";
  UpdateTester tester(text, GetParam().device, GetParam().type, true);
  double scale = 1024;
  // One good step; an overflow, which is left out; two good steps, after which the scale doubles.
  const std::vector<bool> overflows{false, true, false, false, false};
  const std::vector<double> scales{1024, 512, 512, 1024, 1024};
  for (int t = 0; t < 5; ++t) {
    tester.updater->ClearDiffs();
    tester.AddGradients(t, scale);
    if (overflows[t]) {
      tester.learnable.blobs[1]->SetDiff(std::vector<double>(7, t % 2 ? kInfinity : -kInfinity));
    }
    tester.updater->Update(0.25, t);
    if (!overflows[t]) tester.Reference(t, 0.25, {t});
    tester.ExpectParameters("step " + std::to_string(t));
    scale = tester.state.Get(StepState::kLossScale);
    EXPECT_EQ(scales[t], scale) << "after step " << t;
  }
  EXPECT_EQ(1, tester.updater->SkippedSteps());
}

// Weights of nets whose gradients are narrow, or scaled, never become infinite by one overflow.
TEST_P(UpdaterTest, AConstantLossScaleLeavesOverflowsOut) {
  for (const auto& [scale, narrow] : {std::pair{256.0, true}, {256.0, false}, {1.0, true}}) {
    UpdateTester tester("type: 'SGD' momentum: 0.5 loss_scale: " + std::to_string(scale),
                        GetParam().device, GetParam().type, narrow);
    for (int t = 0; t < 3; ++t) {
      tester.updater->ClearDiffs();
      tester.AddGradients(t, scale);
      if (t == 1) {
        tester.learnable.blobs[1]->SetDiff(std::vector<double>(7, -kInfinity));
      }
      tester.updater->Update(0.25, t);
      if (t != 1) tester.Reference(t, 0.25, {t});
      tester.ExpectParameters("step " + std::to_string(t));
      EXPECT_EQ(scale, tester.state.Get(StepState::kLossScale));
    }
    EXPECT_EQ(1, tester.updater->SkippedSteps());
    EXPECT_FALSE(tester.updater->adapts_loss_scale());
  }
}

TEST_P(UpdaterTest, LaunchesAreFewAndNothingWaits) {
  UpdateTester tester("type: 'Adam' momentum: 0.9 clip_gradients: 1", GetParam().device,
                      GetParam().type);
  tester.AddGradients(0);
  tester.updater->Update(0.5, 0);
  GetParam().device->ResetCounters();
  tester.updater->ClearDiffs();
  tester.updater->Update(0.25, 1);
  const DeviceCounters counters = GetParam().device->counters();
  EXPECT_EQ(3, counters.launches);  // squares, decision, update
  EXPECT_EQ(2, counters.uploads);   // rate and correction
  EXPECT_EQ(0, counters.downloads);
  EXPECT_EQ(0, counters.syncs);
  EXPECT_EQ(0, counters.allocations);
  EXPECT_EQ(0, counters.builds);
}

// Launches read it through a pointer: it is uploaded when it changes, and only then.
TEST_P(UpdaterTest, TheRateLivesInStepState) {
  UpdateTester tester("type: 'SGD' momentum: 0.9", GetParam().device, GetParam().type);
  tester.updater->Update(1, 0);
  for (const auto& [rate, uploads] : {std::pair{0.5, 1}, {0.5, 0}, {0.125, 1}, {0.125, 0}}) {
    GetParam().device->ResetCounters();
    tester.updater->Update(rate, 0);
    EXPECT_EQ(uploads, GetParam().device->counters().uploads) << rate;
    EXPECT_EQ(rate, tester.state.Get(StepState::kRate));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, UpdaterTest,
                         testing::ValuesIn(DevicesAndTypes({kFloat, kDouble})),
                         [](const auto& info) { return TestName(info.param); });

// Long parameters take all three levels of the sum.
TEST(UpdaterNormTest, OfManyElements) {
  for (Device* device : TestDevices()) {
    const int64_t count = device->host_accessible() ? 1200007 : 200003;
    StepState state(device);
    auto blob = MakeBlob(kFloat, device, {count}, "long");
    LearnableParameters learnable{{blob.get()}, {1.f}, {1.f}};
    SolverParameter parameter;
    parameter.set_clip_gradients(1);
    Updater updater(parameter, learnable, &state, device, false);
    const std::vector<double> gradient = TestNumbers(count, 5);
    blob->SetDiff(gradient);
    double squares = 0;
    for (double g : gradient) squares += g * g;
    updater.Update(0, 0);
    EXPECT_NEAR(std::sqrt(squares), updater.GradientNorm(), 1e-5 * std::sqrt(squares))
        << device->info().id;
  }
}

TEST(UpdaterSettingsTest, AreChecked) {
  const std::vector<std::string> texts{"type: 'SDG'",
                                       "type: 'AdaGrad' momentum: 0.9",
                                       "type: 'RMSProp' rms_decay: 1",
                                       "iter_size: 0",
                                       "regularization_type: 'L3'",
                                       "loss_scale: -1",
                                       "loss_scale: 0 loss_scale_window: 0"};
  for (const std::string& text : texts) {
    EXPECT_THROW(UpdateTester(text, TestDevices()[0], kFloat), Error) << text;
  }
  EXPECT_THROW(UpdateTester("type: 'SGD'", TestDevices()[0], kHalf), Error);
}

}  // namespace
}  // namespace caffe
