#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// The block of residual networks, each layer in place or with a top of its own.
std::string BlockText(bool in_place) {
  std::string text = R"(
    layer { name: 'in' type: 'Input' top: 'x' top: 'target'
            input_param { shape { dim: 4 dim: 2 dim: 5 dim: 5 } shape { dim: 4 dim: 3 dim: 3 dim: 3 } } }
    layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv'
            convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: 'xavier' } } }
  )";
  std::string bottom = "conv";
  for (const std::string more :
       {"'BatchNorm' batch_norm_param { eps: 0.01 }", "'Scale' scale_param { bias_term: true }",
        "'PReLU'", "'Log' log_param { shift: 9 }", "'Power' power_param { power: 3 }"}) {
    const std::string name = more.substr(1, more.find('\'', 1) - 1);
    const std::string top = in_place ? bottom : name;
    text += "layer { name: '" + name + "' bottom: '" + bottom + "' top: '" + top +
            "' type: " + more + " } ";
    bottom = top;
  }
  return text + "layer { name: 'loss' type: 'EuclideanLoss' bottom: '" + bottom +
         "' bottom: 'target' top: 'loss' }";
}

std::unique_ptr<Net> MakeNet(const std::string& text, Device* device) {
  NetParameter parameter;
  ParseTextProto(text, "test", &parameter);
  NetOptions options;
  options.device = device;
  options.phase = 0;
  options.seed = 1701;
  return std::make_unique<Net>(parameter, options);
}

TEST(NormalisationTest, InPlaceGivesTheSameGradients) {
  for (Device* device : TestDevices()) {
    std::vector<std::vector<double>> expected;
    for (bool in_place : {false, true}) {
      const auto net = MakeNet(BlockText(in_place), device);
      net->BlobByName("x")->SetData(TestNumbers(200, 1));
      net->BlobByName("target")->SetData(TestNumbers(108, 2));
      net->ClearParamDiffs();
      net->Forward();
      net->Backward();
      std::vector<std::vector<double>> gradients;
      double sum = 0;
      for (BlobBase* blob : net->learnable_params()) {
        gradients.push_back(blob->DiffAsDouble());
        sum += blob->asum_diff();
      }
      EXPECT_GT(sum, 0);
      if (!in_place) expected = gradients;
      EXPECT_EQ(gradients, expected) << device->info().id;
    }
  }
}

constexpr char kNet[] = R"(
  layer { name: 'in' type: 'Input' top: 'x' top: 'target'
          input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
  layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y'
          batch_norm_param { moving_average_fraction: 0.5 } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'z'
          inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'EuclideanLoss' bottom: 'z' bottom: 'target' top: 'loss' }
)";

// A solver with momentum and weight decay leaves the statistics alone, and the net that tests sees
// those of the last step.
TEST(NormalisationTest, SolversLeaveStatisticsAlone) {
  for (Device* device : TestDevices()) {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.1 random_seed: 7 "
        "max_iter: 9 test_iter: 1 test_interval: 1000 test_initialization: false",
        "test", &parameter);
    ParseTextProto(kNet, "net", parameter.mutable_net_param());
    Solver solver(parameter, device);
    Net& test = *solver.test_nets()[0];
    for (Net* net : {solver.net(), &test}) {
      net->BlobByName("x")->SetData(TestNumbers(12, 1));
      net->BlobByName("target")->SetData(TestNumbers(8, 2));
    }
    const std::vector<float>& rates = solver.net()->params_lr();
    ASSERT_EQ(rates.size(), 5u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(rates[i], 0);
    const std::vector<double> tested = TestNumbers(12, 1);
    double weight = 0, means[3] = {0, 0, 0}, variances[3] = {0, 0, 0};
    for (int step = 0; step < 3; ++step) {
      const std::vector<double> x = TestNumbers(12, 5 + step);
      solver.net()->BlobByName("x")->SetData(x);
      solver.Step(1);
      weight = weight / 2 + 1;
      const auto& blobs = solver.net()->LayerByName("bn")->blobs();
      EXPECT_EQ(blobs[2]->DataAsDouble(), std::vector<double>{weight}) << device->info().id;
      test.ShareTrainedLayersWith(*solver.net());
      test.Forward();
      std::vector<double> y(12);
      for (size_t c = 0; c < 3; ++c) {
        double mean = 0, variance = 0;
        for (size_t n = 0; n < 4; ++n) mean += x[3 * n + c] / 4;
        for (size_t n = 0; n < 4; ++n) variance += std::pow(x[3 * n + c] - mean, 2) / 3;
        means[c] = means[c] / 2 + mean;
        variances[c] = variances[c] / 2 + variance;
        for (size_t n = 0; n < 4; ++n) {
          y[3 * n + c] =
              (tested[3 * n + c] - means[c] / weight) / std::sqrt(variances[c] / weight + 1e-5);
        }
      }
      ExpectNear(test.BlobByName("y")->DataAsDouble(), y, 2e-5, "y of the testing net");
    }
  }
}

}  // namespace
}  // namespace caffe
