// A learned blob that is read as a bottom: solvers move and change it.
#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::unique_ptr<Solver> MakeSolver(const std::string& text, const DeviceType& where) {
  SolverParameter parameter;
  ParseTextProto(
      "base_lr: 0.5 lr_policy: 'fixed' random_seed: 7 loss_scale: 1 net_param { "
      "layer { name: 'in' type: 'Input' top: 'x' top: 't' input_param { "
      "  shape { dim: 4 dim: 3 } shape { dim: 4 dim: 3 } } } "
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 3 } } } "
      "layer { name: 'y' type: 'Bias' bottom: 'x' bottom: 'p' top: 'y' } "
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } } " +
          text,
      "test", &parameter);
  parameter.set_data_type(static_cast<DataTypeProto>(where.type.info().proto));
  auto solver = std::make_unique<Solver>(parameter, where.device);
  solver->net()->BlobByName("x")->SetData(std::vector<double>(12, 0));
  // The column means are 1, -2 and 0.5.
  solver->net()->BlobByName("t")->SetData({0, -2, 0.5, 2, -2, 0, 1, -1, 1, 1, -3, 0.5});
  return solver;
}

class ParameterSolverTest : public testing::TestWithParam<DeviceType> {};

// loss = sum (p - t)^2 / 8, so dE/dp = p - mean t.
TEST_P(ParameterSolverTest, GradientsReachTheBlob) {
  const auto solver = MakeSolver("", GetParam());
  Net& net = *solver->net();
  const auto& blob = net.LayerByName("p")->blobs()[0];
  solver->Step(1);
  EXPECT_EQ(blob->DataAsDouble(), (std::vector<double>{0.5, -1, 0.25}));
  solver->Step(1);
  EXPECT_EQ(blob->DataAsDouble(), (std::vector<double>{0.75, -1.5, 0.375}));
  net.Forward();
  EXPECT_EQ(net.BlobByName("p")->DataAsDouble(), blob->DataAsDouble());
  // A value that the caller sets is the next forward's.
  blob->SetData({4, 5, 6});
  net.Forward();
  EXPECT_EQ(net.BlobByName("y")->DataAsDouble(),
            (std::vector<double>{4, 5, 6, 4, 5, 6, 4, 5, 6, 4, 5, 6}));
}

// The gradients of several passes add up.
TEST_P(ParameterSolverTest, SeveralPassesInAStep) {
  const auto once = MakeSolver("", GetParam()), thrice = MakeSolver("iter_size: 3", GetParam());
  once->Step(3);
  thrice->Step(3);
  const auto values = [](Solver& solver) {
    return solver.net()->LayerByName("p")->blobs()[0]->DataAsDouble();
  };
  ExpectNear(values(*thrice), values(*once), Tolerance(GetParam().type), "p");
  EXPECT_GT(values(*once)[0], 0.8);
}

// In place, on the blob or on a view of it, layers leave the parameter as it is.
TEST_P(ParameterSolverTest, WorkInPlaceLeavesTheBlob) {
  const std::string parameter =
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 3 } } } ";
  const std::string twice = " power_param { scale: 2 } }";
  const std::string type =
      "data_type: " + DataTypeProto_Name(static_cast<DataTypeProto>(GetParam().type.info().proto)) +
      " ";
  for (const std::string& layers :
       {"layer { name: 'y' type: 'Power' bottom: 'p' top: 'p'" + twice,
        "layer { name: 'f' type: 'Reshape' bottom: 'p' top: 'f' reshape_param { shape { dim: -1 } "
        "} } layer { name: 'y' type: 'Power' bottom: 'f' top: 'f'" +
            twice}) {
    const auto net = MakeNet(type + parameter + layers, GetParam().device);
    const auto& blob = net->LayerByName("p")->blobs()[0];
    blob->SetData({4, 5, 6});
    for (int pass = 0; pass < 2; ++pass) net->Forward();
    EXPECT_EQ(blob->DataAsDouble(), (std::vector<double>{4, 5, 6})) << layers;
    EXPECT_EQ(net->blobs().back()->DataAsDouble(), (std::vector<double>{8, 10, 12})) << layers;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ParameterSolverTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
