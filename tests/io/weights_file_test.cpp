#include "caffe/io/weights_file.hpp"

#include <gtest/gtest.h>

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
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

TEST(WeightsFileTest, LargePackedDataStayInTheFile) {
  const TemporaryFolder folder;
  NetParameter net = TwoLayers();
  std::string bytes(2 * kCount, 'x');
  bytes[9] = 'y';
  for (const int layer : {0, 1}) {
    BlobProto* blob = net.mutable_layer(layer)->mutable_blobs(layer);
    blob->clear_data();
    blob->set_packed_data(layer == 0 ? bytes : "small!");
    blob->set_data_type(CAFFE_HALF);
  }
  const WeightsFile file(Write(folder, net));
  EXPECT_FALSE(file.net().layer(0).blobs(0).has_packed_data());
  EXPECT_EQ(file.net().layer(0).blobs(0).data_type(), CAFFE_HALF);
  EXPECT_EQ(file.net().layer(1).blobs(1).packed_data(), "small!");
  EXPECT_EQ(file.PackedBytes(0), 2 * kCount);
  EXPECT_EQ(file.Elements(0), -1);
  EXPECT_EQ(file.Elements(2), kCount);
  for (const int blob : {1, 2, 3}) EXPECT_EQ(file.PackedBytes(blob), -1);
  std::string read(bytes.size(), ' ');
  file.ReadPacked(0, read.data());
  EXPECT_EQ(read, bytes);
}

std::string Aligned(const NetParameter& net) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  EXPECT_TRUE(WriteAlignedNet(net, &stream));
  return bytes;
}

// Also where the length of a blob or layer needs a byte more than that without padding.
TEST(WeightsFileTest, AlignedArraysCanBeMapped) {
  const TemporaryFolder folder;
  for (int count = 4000; count < 4100; ++count) {
    NetParameter net = TwoLayers();
    net.mutable_layer(0)->mutable_blobs(0)->mutable_data()->Truncate(count);
    net.mutable_layer(0)->mutable_blobs(0)->mutable_shape()->set_dim(0, count);
    BlobProto* packed = net.mutable_layer(1)->mutable_blobs(1);
    packed->clear_data();
    packed->set_packed_data(std::string(count + 97, 'p'));
    packed->set_data_type(CAFFE_INT8_QUANTIZED);
    const std::string path = folder.Put("w.caffemodel", Aligned(net));
    // Other readers see the same net, and writing it again changes nothing.
    NetParameter read = ReadNetParameterBinary(path);
    ASSERT_EQ(Aligned(read), Aligned(net)) << count;
    for (LayerParameter& layer : *read.mutable_layer()) {
      for (BlobProto& blob : *layer.mutable_blobs()) {
        blob.mutable_unknown_fields()->DeleteByNumber(WeightsFile::kPaddingField);
      }
    }
    ASSERT_EQ(read.SerializeAsString(), net.SerializeAsString()) << count;
    const WeightsFile file(path);
    ASSERT_EQ(file.Elements(0), count);
    ASSERT_EQ(file.PackedBytes(3), count + 97 >= 4096 ? count + 97 : -1);
    std::vector<int> mapped = {0, 2};
    if (count + 97 >= 4096) mapped.push_back(3);
    for (const int blob : mapped) {
      const auto bytes = file.Map(blob);
      ASSERT_NE(bytes, nullptr) << count;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(bytes.get()) % WeightsFile::kAlignment, 0u);
      const BlobProto& source = net.layer(blob / 2).blobs(blob % 2);
      const bool floats = blob != 3;
      const void* expected =
          floats ? static_cast<const void*>(source.data().data()) : source.packed_data().data();
      ASSERT_EQ(std::memcmp(bytes.get(), expected,
                            floats ? 4 * source.data_size() : source.packed_data().size()),
                0);
    }
    ASSERT_EQ(file.Map(1), nullptr) << "it is in the net";
  }
}

TEST(WeightsFileTest, AMappingOutlivesTheFileAndItsName) {
  const TemporaryFolder folder;
  const std::string path = folder.Put("w.caffemodel", Aligned(TwoLayers()));
  std::shared_ptr<const char> bytes = WeightsFile(path).Map(2);
  ASSERT_NE(bytes, nullptr);
  std::filesystem::remove(path);
  folder.Put("w.caffemodel", "another file");
  EXPECT_EQ(reinterpret_cast<const float*>(bytes.get())[5], 'b' + 5);
  // BVLC's files are aligned by chance alone.
  EXPECT_EQ(WeightsFile(Write(folder, TwoLayers())).Map(2), nullptr);
  // A file that became shorter before.
  const WeightsFile file(folder.Put("w.caffemodel", Aligned(TwoLayers())));
  std::filesystem::resize_file(folder / "w.caffemodel", 100);
  EXPECT_EQ(file.Map(2), nullptr);
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
  blob->set_packed_data(std::string(2 * kCount, 'x'));  // besides floats
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
