#include "caffe/io/weights_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int kCount = 5000;

void AddBlob(int count, float first, LayerParameter* layer) {
  BlobProto* blob = layer->add_blobs();
  blob->mutable_shape()->add_dim(count);
  for (int i = 0; i < count; ++i) blob->add_data(first + static_cast<float>(i));
}

NetParameter TwoLayers() {
  NetParameter net;
  net.set_name("two");
  for (const char* name : {"a", "b"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    layer->set_type("Bias");
    AddBlob(kCount, name[0], layer);
    AddBlob(3, 1, layer);
  }
  return net;
}

std::string Write(const TemporaryFolder& folder, const NetParameter& net) {
  return folder.Put("w.caffemodel", net.SerializeAsString());
}

TEST(WeightsFileTest, LargeArraysStayInTheFile) {
  const TemporaryFolder folder;
  const NetParameter net = TwoLayers();
  const WeightsFile file(Write(folder, net));
  ASSERT_EQ(file.net().layer_size(), 2);
  EXPECT_EQ(file.net().name(), "two");
  EXPECT_EQ(file.net().layer(1).blobs(0).data_size(), 0);
  EXPECT_EQ(file.net().layer(1).blobs(0).shape().dim(0), kCount);
  EXPECT_EQ(file.net().layer(1).blobs(1).data_size(), 3);
  EXPECT_LT(file.net().ByteSizeLong(), 200u);
  for (const int blob : {0, 2}) EXPECT_EQ(file.Elements(blob), kCount);
  for (const int blob : {1, 3}) EXPECT_EQ(file.Elements(blob), -1);
  std::vector<float> values(kCount);
  file.Read(2, 0, kCount, values.data());
  const auto& expected = net.layer(1).blobs(0).data();
  EXPECT_EQ(values, std::vector<float>(expected.begin(), expected.end()));
  file.Read(0, 4000, 2, values.data());
  EXPECT_EQ(values[1], 'a' + 4001);
  EXPECT_THROW(file.Read(0, kCount - 1, 2, values.data()), Error);
}

TEST(WeightsFileTest, OtherFilesAreReadWhole) {
  const TemporaryFolder folder;
  const auto expect_whole = [&](const NetParameter& net) {
    const WeightsFile file(Write(folder, net));
    EXPECT_EQ(file.net().SerializeAsString(),
              ReadNetParameterBinary(folder / "w.caffemodel").SerializeAsString());
    EXPECT_EQ(file.Elements(0), -1);
  };
  NetParameter net = TwoLayers();
  BlobProto* blob = net.mutable_layer(0)->mutable_blobs(0);
  blob->add_diff(1);  // gradients
  expect_whole(net);
  net = TwoLayers();
  blob = net.mutable_layer(0)->mutable_blobs(0);
  blob->clear_data();
  blob->set_packed_data(std::string(2 * kCount, 'x'));
  blob->set_data_type(CAFFE_HALF);
  expect_whole(net);
  net = TwoLayers();
  blob = net.mutable_layer(0)->mutable_blobs(0);
  for (int i = 0; i < kCount; ++i) blob->add_double_data(i);
  blob->clear_data();
  const WeightsFile doubles(Write(folder, net));
  EXPECT_EQ(doubles.net().layer(0).blobs(0).double_data_size(), kCount);
  EXPECT_EQ(doubles.Elements(2), kCount);
  // The layers of the format before 2014.
  NetParameter old;
  V1LayerParameter* layer = old.add_layers();
  layer->set_name("ip");
  layer->set_type(V1LayerParameter::INNER_PRODUCT);
  BlobProto* weights = layer->add_blobs();
  weights->set_num(1);
  weights->set_height(50);
  weights->set_width(100);
  weights->set_channels(1);
  for (int i = 0; i < kCount; ++i) weights->add_data(1);
  expect_whole(old);
}

TEST(WeightsFileTest, BadFilesHaveTheErrorsOfTheOrdinaryReader) {
  const TemporaryFolder folder;
  const std::string bytes = TwoLayers().SerializeAsString();
  for (const std::string& content :
       {std::string(), bytes.substr(0, bytes.size() / 2), bytes.substr(0, bytes.size() - 1),
        std::string("layer { }"), std::string(10000, '\xff'),
        std::string("version https://git-lfs")}) {
    const std::string path = folder.Put("w.caffemodel", content);
    const std::string expected = ErrorOf([&] { ReadNetParameterBinary(path); });
    EXPECT_NE(expected, "");
    EXPECT_EQ(ErrorOf([&] { WeightsFile file(path); }), expected);
  }
  EXPECT_EQ(ErrorOf([&] { WeightsFile file(folder / "none"); }),
            ErrorOf([&] { ReadNetParameterBinary(folder / "none"); }));
  // A file that becomes shorter later.
  const WeightsFile file(Write(folder, TwoLayers()));
  std::filesystem::resize_file(folder / "w.caffemodel", 100);
  std::vector<float> values(kCount);
  EXPECT_TRUE(Holds(ErrorOf([&] { file.Read(2, 0, kCount, values.data()); }),
                    "it became shorter while it was read"));
}

}  // namespace
}  // namespace caffe
