#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

// Small nets of the same build as two of BVLC Caffe's examples, siamese and mnist_autoencoder.
namespace caffe {
namespace {

// One side of the siamese net; both have the same parameters.
std::string Tower(const std::string& side, const std::string& data) {
  const auto weights = [](const std::string& name) {
    return Concat("param { name: '", name, "_w' lr_mult: 1 } param { name: '", name,
                  "_b' lr_mult: 2 } ");
  };
  const auto filler = "weight_filler { type: 'xavier' } bias_filler { type: 'constant' } ";
  return Concat(
      "layer { name: 'conv", side, "' type: 'Convolution' bottom: '", data, "' top: 'conv", side,
      "' ", weights("conv"), "convolution_param { num_output: 3 kernel_size: 3 ", filler, "} } ",
      "layer { name: 'pool", side, "' type: 'Pooling' bottom: 'conv", side, "' top: 'pool", side,
      "' pooling_param { pool: MAX kernel_size: 2 stride: 2 } } ", "layer { name: 'ip", side,
      "' type: 'InnerProduct' bottom: 'pool", side, "' top: 'ip", side, "' ", weights("ip"),
      "inner_product_param { num_output: 10 ", filler, "} } ", "layer { name: 'relu", side,
      "' type: 'ReLU' bottom: 'ip", side, "' top: 'ip", side, "' } ", "layer { name: 'feat", side,
      "' type: 'InnerProduct' bottom: 'ip", side, "' top: 'feat", side, "' ", weights("feat"),
      "inner_product_param { num_output: 2 ", filler, "} } ");
}

constexpr char kAutoencoder[] = R"(
  name: 'MNISTAutoencoder'
  layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 8 dim: 1 dim: 4 dim: 4 } } }
  layer { name: 'flatdata' type: 'Flatten' bottom: 'data' top: 'flatdata' }
  layer { name: 'encode1' type: 'InnerProduct' bottom: 'flatdata' top: 'encode1'
          param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 1 decay_mult: 0 }
          inner_product_param { num_output: 12 weight_filler { type: 'gaussian' std: 1 sparse: 6 }
                                bias_filler { type: 'constant' value: 0 } } }
  layer { name: 'encode1neuron' type: 'Sigmoid' bottom: 'encode1' top: 'encode1neuron' }
  layer { name: 'encode2' type: 'InnerProduct' bottom: 'encode1neuron' top: 'encode2'
          inner_product_param { num_output: 5 weight_filler { type: 'gaussian' std: 1 sparse: 6 } } }
  layer { name: 'decode2' type: 'InnerProduct' bottom: 'encode2' top: 'decode2'
          inner_product_param { num_output: 12 weight_filler { type: 'gaussian' std: 1 sparse: 3 } } }
  layer { name: 'decode2neuron' type: 'Sigmoid' bottom: 'decode2' top: 'decode2neuron' }
  layer { name: 'decode1' type: 'InnerProduct' bottom: 'decode2neuron' top: 'decode1'
          inner_product_param { num_output: 16 weight_filler { type: 'gaussian' std: 1 sparse: 6 } } }
  layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'decode1' bottom: 'flatdata'
          top: 'cross_entropy_loss' loss_weight: 1 }
  layer { name: 'decode1neuron' type: 'Sigmoid' bottom: 'decode1' top: 'decode1neuron' }
  layer { name: 'l2' type: 'EuclideanLoss' bottom: 'decode1neuron' bottom: 'flatdata' top: 'l2_error'
          loss_weight: 0 }
)";

std::unique_ptr<Solver> Make(const std::string& net, const std::string& settings,
                             const DeviceType& target) {
  SolverParameter parameter;
  ParseTextProto("lr_policy: 'fixed' random_seed: 3 " + settings, "test", &parameter);
  parameter.set_data_type(static_cast<DataTypeProto>(target.type.info().proto));
  ParseTextProto(net, "net", parameter.mutable_net_param());
  return std::make_unique<Solver>(parameter, target.device);
}

double Value(const Solver& solver, const std::string& blob) {
  return const_cast<Solver&>(solver).net()->BlobByName(blob)->DataAsDouble()[0];
}

class BvlcLossesTest : public testing::TestWithParam<DeviceType> {};

TEST_P(BvlcLossesTest, SiameseNet) {
  const std::string net =
      "name: 'mnist_siamese' "
      "layer { name: 'pair_data' type: 'Input' top: 'pair_data' top: 'sim' "
      "input_param { shape { dim: 8 dim: 2 dim: 6 dim: 6 } shape { dim: 8 } } } "
      "layer { name: 'slice_pair' type: 'Slice' bottom: 'pair_data' top: 'data' top: 'data_p' "
      "slice_param { slice_dim: 1 slice_point: 1 } } " +
      Tower("", "data") + Tower("_p", "data_p") +
      "layer { name: 'loss' type: 'ContrastiveLoss' bottom: 'feat' bottom: 'feat_p' bottom: 'sim' "
      "top: 'loss' contrastive_loss_param { margin: 1 } }";
  auto solver = Make(net, "base_lr: 0.05 momentum: 0.5", GetParam());
  // Two kinds of images; a pair is similar if both are of one kind.
  std::vector<double> pairs(8 * 2 * 36), similar(8);
  const std::vector<double> noise = TestNumbers(static_cast<int64_t>(pairs.size()), 5);
  for (int n = 0; n < 8; ++n) {
    const int kinds[2] = {n % 2, n / 2 % 2};
    similar[n] = kinds[0] == kinds[1];
    for (int side = 0; side < 2; ++side) {
      for (int i = 0; i < 36; ++i) {
        const double stripe = (kinds[side] ? i / 6 : i % 6) % 2;
        pairs[(n * 2 + side) * 36 + i] = stripe + noise[(n * 2 + side) * 36 + i] / 8;
      }
    }
  }
  solver->net()->BlobByName("pair_data")->SetData(pairs);
  solver->net()->BlobByName("sim")->SetData(similar);
  solver->net()->Forward();
  const double first = solver->net()->Loss();
  solver->Step(60);
  EXPECT_LT(solver->SmoothedLoss(), first / 4);
  const auto& layers = *solver->net();
  EXPECT_EQ(layers.LayerByName("conv")->blobs()[0]->DataAsDouble(),
            layers.LayerByName("conv_p")->blobs()[0]->DataAsDouble());
}

TEST_P(BvlcLossesTest, Autoencoder) {
  auto solver = Make(kAutoencoder, "base_lr: 0.05 momentum: 0.9", GetParam());
  std::vector<double> images(8 * 16);
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 16; ++i) images[n * 16 + i] = (n & 1 << i % 3) != 0 ? 0.96875 : 0.03125;
  }
  solver->net()->BlobByName("data")->SetData(images);
  solver->net()->Forward();
  const double cross_entropy = Value(*solver, "cross_entropy_loss");
  const double l2 = Value(*solver, "l2_error");
  EXPECT_NEAR(solver->net()->Loss(), cross_entropy, 1e-3 * cross_entropy) << "weight 0 of l2_error";
  solver->Step(80);
  EXPECT_LT(Value(*solver, "cross_entropy_loss"), cross_entropy / 2);
  EXPECT_LT(Value(*solver, "l2_error"), l2 / 2);
}

INSTANTIATE_TEST_SUITE_P(All, BvlcLossesTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
