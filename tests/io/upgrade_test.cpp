#include "caffe/io/upgrade.hpp"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

NetParameter Parse(const std::string& text) {
  NetParameter net;
  ParseTextProto(text, "net.prototxt", &net);
  return net;
}

NetParameter Upgraded(const std::string& text) {
  NetParameter net = Parse(text);
  UpgradeNetAsNeeded("net.prototxt", &net);
  EXPECT_FALSE(NetNeedsUpgrade(net));
  return net;
}

void ExpectUpgrade(const std::string& before, const std::string& after) {
  const NetParameter net = Upgraded(before), expected = Parse(after);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(net, expected))
      << net.DebugString() << "expected\n"
      << expected.DebugString();
}

TEST(UpgradeTest, V1LeNet) {
  ExpectUpgrade(R"(
    name: "LeNet"
    layers { name: "mnist" type: DATA top: "data" top: "label"
      data_param { source: "train_lmdb" backend: LMDB batch_size: 64 scale: 0.00390625 }
      include: { phase: TRAIN } }
    layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1"
      blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0
      convolution_param { num_output: 20 kernel_size: 5 stride: 1
        weight_filler { type: "xavier" } bias_filler { type: "constant" } } }
    layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
      pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layers { name: "ip1" type: INNER_PRODUCT bottom: "pool1" top: "ip1"
      param: "w" param: "b" blob_share_mode: PERMISSIVE
      inner_product_param { num_output: 500 } }
    layers { name: "relu1" type: RELU bottom: "ip1" top: "ip1" }
    layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip1" bottom: "label" top: "loss"
      loss_weight: 0.5 exclude { stage: "deploy" } })",
                R"(
    name: "LeNet"
    layer { name: "mnist" type: "Data" top: "data" top: "label"
      data_param { source: "train_lmdb" backend: LMDB batch_size: 64 }
      transform_param { scale: 0.00390625 } include: { phase: TRAIN } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
      param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
      convolution_param { num_output: 20 kernel_size: 5 stride: 1
        weight_filler { type: "xavier" } bias_filler { type: "constant" } } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
      pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
      param { name: "w" share_mode: PERMISSIVE } param { name: "b" }
      inner_product_param { num_output: 500 } }
    layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss"
      loss_weight: 0.5 exclude { stage: "deploy" } })");
}

TEST(UpgradeTest, ListsOfPooling) {
  ExpectUpgrade(R"(
    layer { type: "Pooling" pooling_param { kernel_size_nd: 3 kernel_size_nd: 2 stride_nd: 2 } }
    layer { type: "Pooling" pooling_param { kernel_size: 2 stride_nd: 1 stride_nd: 2 pad_nd: 0 } }
    layer { type: "Pooling" pooling_param { kernel_size_nd: 2 kernel_size_nd: 2
                                            kernel_size_nd: 2 stride: 2 stride_nd: 1 } }
)",
                R"(
    layer { type: "Pooling" pooling_param { kernel_h: 3 kernel_w: 2 stride: 2 } }
    layer { type: "Pooling" pooling_param { kernel_size: 2 stride_h: 1 stride_w: 2 pad: 0 } }
    layer { type: "Pooling" pooling_param { kernel_size_nd: 2 kernel_size_nd: 2
                                            kernel_size_nd: 2 stride: 2 stride_nd: 1 } }
)");
}

TEST(UpgradeTest, V0WithPaddingLayer) {
  ExpectUpgrade(R"(
    name: "old"
    layers { layer { name: "data" type: "data" source: "db" batchsize: 8 scale: 0.5
        meanfile: "mean" cropsize: 20 mirror: true rand_skip: 3 } top: "data" top: "label" }
    layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "padded" }
    layers { layer { name: "conv1" type: "conv" num_output: 16 kernelsize: 5 stride: 2 group: 4
        biasterm: false weight_filler { type: "gaussian" std: 0.01 } blobs_lr: 1 weight_decay: 1 }
      bottom: "padded" top: "conv1" }
    layers { layer { name: "pool1" type: "pool" pool: AVE kernelsize: 3 stride: 2 pad: 1 }
      bottom: "conv1" top: "pool1" }
    layers { layer { name: "norm1" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.5 k: 2 }
      bottom: "pool1" top: "norm1" }
    layers { layer { name: "ip" type: "innerproduct" num_output: 10 } bottom: "norm1" top: "ip" }
    layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.25 } bottom: "ip" top: "ip" }
    layers { layer { name: "cat" type: "concat" concat_dim: 1 } bottom: "ip" top: "cat" })",
                R"(
    name: "old"
    layer { name: "data" type: "Data" top: "data" top: "label"
      data_param { source: "db" batch_size: 8 rand_skip: 3 }
      transform_param { scale: 0.5 mean_file: "mean" crop_size: 20 mirror: true } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
      param { lr_mult: 1 decay_mult: 1 }
      convolution_param { num_output: 16 kernel_size: 5 stride: 2 group: 4 bias_term: false pad: 2
        weight_filler { type: "gaussian" std: 0.01 } } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
      pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
    layer { name: "norm1" type: "LRN" bottom: "pool1" top: "norm1"
      lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 k: 2 } }
    layer { name: "ip" type: "InnerProduct" bottom: "norm1" top: "ip"
      inner_product_param { num_output: 10 } }
    layer { name: "drop" type: "Dropout" bottom: "ip" top: "ip"
      dropout_param { dropout_ratio: 0.25 } }
    layer { name: "cat" type: "Concat" bottom: "ip" top: "cat" concat_param { concat_dim: 1 } })");
}

TEST(UpgradeTest, V0ImagesAndWindows) {
  ExpectUpgrade(R"(
    layers { layer { name: "i" type: "images" source: "list" batchsize: 2 new_height: 3
        new_width: 4 shuffle_images: true } top: "i" }
    layers { layer { name: "w" type: "window_data" source: "w" batchsize: 5 det_fg_threshold: 0.6
        det_bg_threshold: 0.4 det_fg_fraction: 0.3 det_context_pad: 16 det_crop_mode: "square" }
      top: "w" }
    layers { layer { name: "o" type: "hdf5_output" hdf5_output_param { file_name: "f" } }
      bottom: "w" })",
                R"(
    layer { name: "i" type: "ImageData" top: "i" image_data_param { source: "list" batch_size: 2
        new_height: 3 new_width: 4 shuffle: true } }
    layer { name: "w" type: "WindowData" top: "w" window_data_param { source: "w" batch_size: 5
        fg_threshold: 0.6 bg_threshold: 0.4 fg_fraction: 0.3 context_pad: 16
        crop_mode: "square" } }
    layer { name: "o" type: "HDF5Output" bottom: "w" hdf5_output_param { file_name: "f" } })");
}

TEST(UpgradeTest, V0FieldThatDoesNotSuitIsLoggedAndDropped) {
  testing::internal::CaptureStderr();
  const NetParameter net = Upgraded(
      "layers { layer { name: 'r' type: 'relu' num_output: 3 } bottom: 'a' top: 'a' }"
      "input: 'a' input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4");
  EXPECT_TRUE(Contains(testing::internal::GetCapturedStderr(), "r (relu): field num_output"));
  EXPECT_EQ(net.layer(1).type(), "ReLU");
}

TEST(UpgradeTest, V0ErrorsNameFileAndLayer) {
  const auto error = [](const std::string& text) {
    NetParameter net = Parse(text);
    return ErrorOf([&] { UpgradeNetAsNeeded("net.prototxt", &net); });
  };
  const std::string type = error("layers { layer { name: 'x' type: 'warp' } }");
  EXPECT_EQ(type, "net.prototxt: x: unknown V0 layer type \"warp\"");
  EXPECT_TRUE(Contains(error("input: 'a' layers { layer { name: 'p' type: 'padding' } bottom: 'a' "
                             "top: 'p' } layers { layer { name: 'r' type: 'relu' } bottom: 'p' }"),
                       "r (relu): padding layer p can only be followed by conv or pool"));
}

TEST(UpgradeTest, MixedFormatsAreRefused) {
  NetParameter net = Parse("layer { name: 'a' } layers { name: 'b' }");
  EXPECT_TRUE(Contains(ErrorOf([&] { UpgradeNetAsNeeded("net.prototxt", &net); }),
                       "both `layer` and `layers`"));
}

TEST(UpgradeTest, EveryV1TypeHasItsName) {
  const auto* types = V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < types->value_count(); ++i) {
    const std::string name = types->value(i)->name();
    const NetParameter net = Upgraded("layers { type: " + name + " }");
    std::string squeezed;
    for (const char c : net.layer(0).type()) {
      squeezed += static_cast<char>(std::toupper(c));
    }
    std::string expected;
    for (const char c : name) {
      if (c != '_') expected += c;
    }
    if (name == "NONE") expected = "";
    if (name == "SOFTMAX_LOSS") expected = "SOFTMAXWITHLOSS";
    EXPECT_EQ(squeezed, expected);
  }
}

TEST(UpgradeTest, EveryV1ParameterMessageIsKept) {
  const auto* v1 = V1LayerParameter::descriptor();
  int checked = 0;
  for (int i = 0; i < v1->field_count(); ++i) {
    const auto& field = *v1->field(i);
    if (field.is_repeated() || !field.message_type() || field.name() == "layer") continue;
    const NetParameter net = Upgraded("layers { " + field.name() + " { } }");
    const auto* target = LayerParameter::descriptor()->FindFieldByName(field.name());
    ASSERT_NE(target, nullptr) << field.name();
    EXPECT_TRUE(net.layer(0).GetReflection()->HasField(net.layer(0), target)) << field.name();
    ++checked;
  }
  EXPECT_EQ(checked, 31);
}

TEST(UpgradeTest, InputsWithDimensions) {
  ExpectUpgrade(
      "input: 'data' input: 'im_info' input_dim: [1, 3, 227, 228, 1, 1, 1, 3]"
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'data' }",
      "layer { name: 'input' type: 'Input' top: 'data' top: 'im_info' input_param {"
      "  shape { dim: [1, 3, 227, 228] } shape { dim: [1, 1, 1, 3] } } }"
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'data' }");
}

TEST(UpgradeTest, InputsWithShapes) {
  ExpectUpgrade("input: 'x' input_shape { dim: 7 dim: 5 } layer { name: 'r' }",
                "layer { name: 'input' type: 'Input' top: 'x' input_param {"
                "  shape { dim: [7, 5] } } } layer { name: 'r' }");
}

TEST(UpgradeTest, InputsWithoutShapesAreDropped) {
  ExpectUpgrade("input: 'x' layer { name: 'r' }", "layer { name: 'r' }");
}

TEST(UpgradeTest, InputsWithWrongCountsAreAnError) {
  NetParameter net = Parse("input: 'x' input_dim: 1 input_dim: 2");
  EXPECT_EQ(ErrorOf([&] { UpgradeNetAsNeeded("net.prototxt", &net); }),
            "net.prototxt: the net has 1 input(s), but 2 input_dim; each input takes four");
}

TEST(UpgradeTest, BatchNormStatisticsAreNotTrained) {
  ExpectUpgrade(
      "layer { type: 'BatchNorm' param { lr_mult: 1 } param { } param { lr_mult: 0 } }"
      "layer { type: 'BatchNorm' param { lr_mult: 1 } }",
      "layer { type: 'BatchNorm' param { lr_mult: 0 decay_mult: 0 }"
      "  param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 } }"
      "layer { type: 'BatchNorm' param { lr_mult: 1 } }");
}

TEST(UpgradeTest, NetsInsideNetsAreUpgraded) {
  const NetParameter net = Upgraded(
      "layer { type: 'MOE' moe_param { gating_net { layers { type: RELU } }"
      "  expert_net { input: 'x' input_shape { dim: 2 } } } }");
  EXPECT_EQ(net.layer(0).moe_param().gating_net().layer(0).type(), "ReLU");
  EXPECT_EQ(net.layer(0).moe_param().expert_net(0).layer(0).type(), "Input");
}

TEST(UpgradeTest, LogLinesKeepTheirText) {
  testing::internal::CaptureStderr();
  Upgraded("layers { type: RELU }");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(log,
                       "] Attempting to upgrade input file specified using deprecated "
                       "V1LayerParameter: net.prototxt"));
  EXPECT_TRUE(Contains(log,
                       "] Successfully upgraded file specified using deprecated "
                       "V1LayerParameter"));
}

SolverParameter Solver(const std::string& text) {
  SolverParameter solver;
  ParseTextProto(text, "solver.prototxt", &solver);
  UpgradeSolverAsNeeded("solver.prototxt", &solver);
  return solver;
}

TEST(UpgradeTest, SolverTypeBecomesAString) {
  const SolverParameter solver = Solver("solver_type: ADADELTA");
  EXPECT_EQ(solver.type(), "AdaDelta");
  EXPECT_FALSE(solver.has_solver_type());
  EXPECT_TRUE(Contains(ErrorOf([] { Solver("solver_type: ADAM type: 'SGD'"); }),
                       "solver.prototxt: both solver_type and type"));
}

TEST(UpgradeTest, SolverDeviceOfTheFork) {
  EXPECT_EQ(Solver("device: 2").device_id(), 2);
  EXPECT_FALSE(Solver("device: -1").has_device_id());
  EXPECT_TRUE(Contains(ErrorOf([] { Solver("device: 2 device_id: 1"); }), "contradict"));
}

TEST(UpgradeTest, NetsInsideASolverAreUpgraded) {
  const SolverParameter solver = Solver(
      "net_param { layers { type: RELU } } test_net_param { input: 'x' input_shape { dim: 2 } }");
  EXPECT_EQ(solver.net_param().layer(0).type(), "ReLU");
  EXPECT_EQ(solver.test_net_param(0).layer(0).type(), "Input");
}

TEST(UpgradeTest, SnapshotPrefixAndNetPathsFollowTheSolverFile) {
  TemporaryFolder folder;
  const std::string net = folder.Put("only_here.prototxt", "name: 'n'");
  const std::string path =
      folder.Put("my_solver.prototxt", "net: 'only_here.prototxt' test_net: 'nowhere.prototxt'");
  SolverParameter solver = ReadSolverParameter(path);
  EXPECT_EQ(solver.snapshot_prefix(), folder / "my_solver");
  EXPECT_EQ(solver.net(), net);
  EXPECT_EQ(solver.test_net(0), "nowhere.prototxt");

  std::filesystem::create_directory(folder / "out");
  folder.Put("my_solver.prototxt", "snapshot_prefix: '" + (folder / "out") + "'");
  EXPECT_EQ(ReadSolverParameter(path).snapshot_prefix(), folder / "out/my_solver");
  folder.Put("my_solver.prototxt", "snapshot_prefix: 'some/lenet'");
  EXPECT_EQ(ReadSolverParameter(path).snapshot_prefix(), "some/lenet");
}

}  // namespace
}  // namespace caffe
