// Training in mode pseudo: ranges move, snapshots keep them, test nets take them.
#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/calibration/comparison.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "solver/training_state.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class PseudoTrainingTest : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override { MakeDatabase(folder_ / "records", 22, 2, 9, 9); }

  std::unique_ptr<Solver> Make(int64_t seed, const std::string& more = "") const {
    const std::string net =
        "state { quantizer_mode: CAFFE_QUANT_PSEUDO } "
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" +
        (folder_ / "records") +
        "' backend: LMDB batch_size: 4 } transform_param { crop_size: 8 scale: 0.004 } } "
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
        "        convolution_param { num_output: 6 kernel_size: 3 bias_term: false "
        "                            weight_filler { type: 'xavier' } } } "
        "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv' top: 'conv' } "
        "layer { name: 'scale' type: 'Scale' bottom: 'conv' top: 'conv' "
        "        scale_param { bias_term: true } } "
        "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' } "
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' "
        "        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } } "
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
    SolverParameter parameter;
    ParseTextProto(
        "type: 'SGD' base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' test_iter: 2 "
        "test_interval: 4 " +
            more,
        "test", &parameter);
    ParseTextProto(net, "net", parameter.mutable_net_param());
    parameter.set_random_seed(seed);
    parameter.set_data_type(static_cast<DataTypeProto>(GetParam().type.info().proto));
    parameter.set_snapshot_prefix(folder_ / "s");
    return std::make_unique<Solver>(parameter, GetParam().device);
  }

  static TrainingState State(Solver& solver) {
    TrainingState state = StateOf(solver, {"data", "conv", "ip", "loss"});
    for (const auto& [name, range] : solver.net()->Ranges()) {
      state.emplace_back("range " + name, std::vector<double>{range.low, range.high});
    }
    return state;
  }

  TemporaryFolder folder_;
};

TEST_P(PseudoTrainingTest, AResumedRunEqualsAnUninterruptedOne) {
  for (const std::string format : {"BINARYPROTO", "HDF5"}) {
    const std::string snapshots = "snapshot: 5 snapshot_format: " + format;
    auto whole = Make(7, snapshots);
    whole->Step(9);
    auto resumed = Make(99, snapshots);
    resumed->Restore(folder_ /
                     ("s_iter_5.solverstate" + std::string(format == "HDF5" ? ".h5" : "")));
    resumed->Step(4);
    EXPECT_EQ("", FirstDifference(State(*whole), State(*resumed))) << format;
  }
}

TEST_P(PseudoTrainingTest, TestNetsTakeTheRanges) {
  auto solver = Make(7);
  ASSERT_TRUE(solver->test_nets()[0]->is_pseudo());
  solver->Step(6);
  solver->Test(0);
  const auto trained = solver->net()->Ranges(), tested = solver->test_nets()[0]->Ranges();
  for (const char* blob : {"data", "conv@conv", "conv@bn", "conv@scale", "conv", "ip"}) {
    ASSERT_EQ(trained.count(blob), 1u) << blob;
    EXPECT_EQ(trained.at(blob).high, tested.at(blob).high) << blob;
  }
  // They are those of the moving average: another batch changes them a little.
  solver->Step(1);
  const double before = trained.at("ip").high, after = solver->net()->Ranges().at("ip").high;
  EXPECT_NE(before, after);
  EXPECT_LT(std::abs(after - before), 0.03 * std::abs(before));
}

// A net that was trained runs in codes.
TEST_P(PseudoTrainingTest, TheSnapshotRunsInIntegers) {
  auto solver = Make(7);
  solver->Step(8);
  NetParameter file;
  solver->net()->ToProto(&file);
  NetParameter model = file;
  for (LayerParameter& layer : *model.mutable_layer()) {
    layer.clear_blobs();
    layer.clear_phase();
  }
  model.clear_quantizer();
  std::vector<std::vector<float>> scores;
  for (const DataTypeProto type : {CAFFE_FLOAT, CAFFE_INT8_QUANTIZED}) {
    model.mutable_state()->set_phase(TEST);
    model.mutable_state()->set_quantizer_mode(type == CAFFE_FLOAT ? CAFFE_QUANT_PSEUDO
                                                                  : CAFFE_QUANT_PASSIVE);
    model.set_data_type(type);
    NetOptions options;
    options.device = GetParam().device;
    options.seed = 1;
    options.phase = TEST;
    Net net(model, options);
    net.CopyTrainedLayersFrom(file);
    net.Forward();
    const BlobBase& ip = *net.BlobByName("ip");
    const std::vector<float>& values = scores.emplace_back(RealValues(ip));
    if (type == CAFFE_FLOAT) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], scores[0][i], 1.01 * ip.range().scale) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PseudoTrainingTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
