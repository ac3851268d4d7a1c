// Labels are float in nets of every type, from every source and with other readers: half cannot
// represent 2401, bfloat16 cannot represent 997.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/layers/memory_data_layer.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int kClasses = 3000;
const std::vector<double> kLabels{997, 2401};

// Everything that reads labels, and more.
const char* const kReaders =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' top: 'loss' } "
    "layer { name: 'hits' type: 'Accuracy' bottom: 'x' bottom: 'y' top: 'hits' } "
    "layer { name: 'twice' type: 'Power' bottom: 'y' top: 'twice' power_param { scale: 2 } } ";

// Scores that are highest where the label is.
std::vector<float> Scores() {
  std::vector<float> scores(kLabels.size() * kClasses, 0.f);
  for (size_t i = 0; i < kLabels.size(); ++i) {
    scores[i * kClasses + static_cast<int>(kLabels[i])] = 32;
  }
  return scores;
}

class LabelTypesTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(const std::string& source, const std::string& readers = kReaders) {
    const auto [device, type] = GetParam();
    NetParameter parameter = ParseNet(source + readers);
    parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
    NetOptions options;
    options.device = device;
    options.phase = TEST;
    options.seed = 1;
    return std::make_unique<Net>(parameter, options);
  }

  void ExpectHits(Net* net) {
    const DataType type = GetParam().type;
    net->Forward();
    EXPECT_EQ(net->BlobByName("x")->type(), type);
    EXPECT_EQ(net->BlobByName("y")->type(), type == kDouble ? kDouble : kFloat);
    EXPECT_EQ(Values(*net, "y"), kLabels);
    EXPECT_EQ(Values(*net, "hits"), std::vector<double>{1});
    EXPECT_NEAR(Values(*net, "loss")[0], 0, 1e-3);
    const std::vector<double> twice = Values(*net, "twice");
    EXPECT_EQ(net->BlobByName("twice")->type(), type);
    EXPECT_NEAR(twice[0], 2 * 997, 4000 * Tolerance(type));
  }
};

TEST_P(LabelTypesTest, Input) {
  const auto net = Make(Concat(
      "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: ",
      kClasses, " } shape { dim: 2 } } } "));
  const std::vector<float> scores = Scores();
  net->BlobByName("x")->SetData({scores.begin(), scores.end()});
  net->BlobByName("y")->SetData(kLabels);
  ExpectHits(net.get());
}

TEST_P(LabelTypesTest, Hdf5Data) {
  const TemporaryFolder folder;
  const std::vector<float> scores = Scores();
  Hdf5Writer file(folder / "0.h5");
  file.Write("x", {2, kClasses}, scores.data());
  file.Write("y", {2}, kLabels.data());
  file.Write("z", {2}, kLabels.data());
  file.Commit();
  const std::string list = folder.Put("list.txt", (folder / "0.h5") + "\n");
  // Two labels and a NaN.
  const auto net = Make(
      "layer { name: 'in' type: 'HDF5Data' top: 'y' top: 'x' top: 'z' "
      "hdf5_data_param { batch_size: 2 source: '" +
      list + "' } } ");
  ExpectHits(net.get());
  EXPECT_EQ(net->BlobByName("z")->type(), GetParam().type);
  if (GetParam().type == kHalf) {
    EXPECT_EQ(Values(*net, "z"), std::vector<double>({997, 2400}));
  }
}

TEST_P(LabelTypesTest, DummyData) {
  const auto net =
      Make(Concat("layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { "
                  "shape { dim: 2 dim: ",
                  kClasses,
                  " } shape { dim: 2 } data_filler { type: 'constant' } "
                  "data_filler { type: 'constant' value: 2401 } } } "));
  net->Forward();
  EXPECT_EQ(net->BlobByName("x")->type(), GetParam().type);
  EXPECT_EQ(Values(*net, "y"), std::vector<double>(2, 2401));
}

// BVLC Caffe truncates labels. `caffe time` is often given one filler for data and labels.
TEST_P(LabelTypesTest, DummyDataIsTruncatedToClasses) {
  const std::string dummy =
      "layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { "
      "shape { dim: 2 dim: 3 } shape { dim: 2 dim: 1 } data_filler { value: 1.5 } } } ";
  const std::string flat =
      "layer { name: 'flat' type: 'Reshape' bottom: 'y' top: 'flat' reshape_param { shape { dim: "
      "2 } } } ";
  const std::string loss =
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'flat' top: 'loss' } "
      "layer { name: 'hits' type: 'Accuracy' bottom: 'x' bottom: 'flat' top: 'hits' } ";
  const std::string target =
      "layer { name: 'target' type: 'SigmoidCrossEntropyLoss' bottom: 'y' bottom: 'y' } ";
  testing::internal::CaptureStderr();
  const auto net = Make(dummy + flat + loss, "");
  net->Forward();
  net->Forward();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Values(*net, "x"), std::vector<double>(6, 1.5));
  EXPECT_EQ(Values(*net, "y"), std::vector<double>(2, 1));
  EXPECT_NEAR(Values(*net, "loss")[0], std::log(3), Tolerance(GetParam().type));
  const std::string warning =
      "in (DummyData): values of top y, such as 1.5, are truncated to integers, because layers "
      "read them as classes";
  const size_t first = said.find(warning);  // not again in the next case of this process
  if (first != said.npos) EXPECT_EQ(said.find(warning, first + 1), said.npos);

  // Other readers get what the filler says, and classes that are not integers are refused.
  const auto targets = Make(dummy + target, "");
  targets->Forward();
  EXPECT_EQ(Values(*targets, "y"), std::vector<double>(2, 1.5));
  const auto both = Make(dummy + flat + loss + target, "");
  EXPECT_TRUE(Holds(ErrorOf([&] {
                      both->Forward();
                      both->CheckData();
                    }),
                    "label 1.5 of item 0 is not an integer"));
}

TEST(TruncatedLabelsTest, RandomLabelsStayClasses) {
  const auto net = MakeNet(
      "layer { name: 'random' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { "
      "shape { dim: 9 dim: 3 } shape { dim: 9 } data_filler { type: 'uniform' max: 2.9 } } } "
      "layer { name: 'loss' type: 'HingeLoss' bottom: 'x' bottom: 'y' top: 'loss' } ",
      Runtime::Get().cpu());
  testing::internal::CaptureStderr();
  net->Forward();
  EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(), "values of top y, such as "));
  for (const double value : Values(*net, "y")) EXPECT_EQ(value, std::trunc(value));
  testing::internal::CaptureStderr();
  net->Forward();
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("truncated"), std::string::npos);
}

TEST_P(LabelTypesTest, MemoryData) {
  const auto net =
      Make(Concat("layer { name: 'in' type: 'MemoryData' top: 'x' top: 'y' memory_data_param { "
                  "batch_size: 2 channels: ",
                  kClasses, " height: 1 width: 1 } } "));
  const std::vector<float> scores = Scores(), labels(kLabels.begin(), kLabels.end());
  dynamic_cast<MemoryData&>(*net->LayerByName("in")).Reset(scores.data(), labels.data(), 2);
  net->Forward();
  EXPECT_EQ(Values(*net, "y"), kLabels);
  EXPECT_EQ(Values(*net, "hits"), std::vector<double>{1});
}

// Images of labels, as in segmentation, from records that have labels of their own.
TEST_P(LabelTypesTest, ImagesOfLabels) {
  const TemporaryFolder folder;
  const auto writer = CreateDatabase("lmdb", folder / "db");
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1);
  datum.set_width(2);
  datum.set_label(1);
  for (double label : kLabels) datum.add_float_data(static_cast<float>(label));
  writer->Put("0", datum);
  writer->Finish();
  const auto net = Make(Concat(
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: ", kClasses,
      " dim: 1 dim: 2 } } } "
      "layer { name: 'labels' type: 'Data' top: 'image' top: 'other' data_param { source: '",
      folder / "db",
      "' backend: LMDB batch_size: 1 } } "
      "layer { name: 'quiet' type: 'Silence' bottom: 'other' } "
      "layer { name: 'shape' type: 'Reshape' bottom: 'image' top: 'y' "
      "reshape_param { shape { dim: 1 dim: 1 dim: 2 } } } "));
  net->Forward();
  EXPECT_EQ(Values(*net, "y"), kLabels);
  EXPECT_EQ(Values(*net, "image"), kLabels);
}

TEST_P(LabelTypesTest, ThroughOtherLayers) {
  const auto net = Make(Concat(
      "layer { name: 'in' type: 'Input' top: 'x' top: 'all' input_param { shape { dim: 2 "
      "dim: ",
      kClasses,
      " } shape { dim: 2 dim: 2 } } } "
      "layer { name: 'cut' type: 'Slice' bottom: 'all' top: 'rest' top: 'last' } "
      "layer { name: 'quiet' type: 'Silence' bottom: 'rest' } "
      "layer { name: 'shape' type: 'Reshape' bottom: 'last' top: 'y' reshape_param { shape { "
      "dim: 2 } } } "
      "layer { name: 'less' type: 'Power' bottom: 'y' top: 'y' power_param { shift: -1 } } "));
  const std::vector<float> scores = Scores();
  net->BlobByName("x")->SetData({scores.begin(), scores.end()});
  net->BlobByName("all")->SetData({1, kLabels[0] + 1, 2, kLabels[1] + 1});
  net->Forward();
  EXPECT_EQ(Values(*net, "y"), kLabels);
  EXPECT_EQ(Values(*net, "hits"), std::vector<double>{1});
}

TEST_P(LabelTypesTest, ASourcesOwnTypeHolds) {
  const auto net = Make(
      "layer { name: 'in' type: 'Input' top: 'x' top: 'y' top_data_type: CAFFE_HALF input_param { "
      "shape { dim: 2 dim: 3 } shape { dim: 2 } } } ");
  EXPECT_EQ(net->BlobByName("x")->type(), kHalf);
  EXPECT_EQ(net->BlobByName("y")->type(), kHalf);
}

// Assigned types are not saved to a file.
TEST_P(LabelTypesTest, AreNotSaved) {
  const auto net = Make(
      "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 3 } "
      "shape { dim: 2 } } } ");
  NetParameter saved;
  net->ToProto(&saved);
  EXPECT_FALSE(saved.layer(0).has_top_data_type());
}

INSTANTIATE_TEST_SUITE_P(All, LabelTypesTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

// Numbers come in as numbers.
TEST(LabelTypesQuantizedTest, AllTopsOfASourceAreFloat) {
  const auto net = MakeNet(
      "data_type: CAFFE_INT8_QUANTIZED layer { name: 'in' type: 'Input' top: 'x' top: 'y' "
      "input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } } " +
          InnerProductText("ip", "x", 3) +
          "layer { name: 'hits' type: 'Accuracy' bottom: 'ip' bottom: 'y' top: 'hits' } ",
      Runtime::Get().cpu());
  EXPECT_EQ(net->BlobByName("x")->type(), kFloat);
  EXPECT_EQ(net->BlobByName("y")->type(), kFloat);
  EXPECT_EQ(net->BlobByName("ip")->type(), kQuant8);
}

}  // namespace
}  // namespace caffe
