#include "caffe/memory/blob.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

template <class Function> std::string MessageOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BlobTest, Shape) {
  const Blob<float> blob(Cpu(), {2, 3, 4, 5});
  EXPECT_EQ(blob.count(), 120);
  EXPECT_EQ(blob.count(1), 60);
  EXPECT_EQ(blob.count(1, 3), 12);
  EXPECT_EQ(blob.shape(-1), 5);
  EXPECT_EQ(blob.num(), 2);
  EXPECT_EQ(blob.channels(), 3);
  EXPECT_EQ(blob.height(), 4);
  EXPECT_EQ(blob.width(), 5);
  EXPECT_EQ(blob.shape_string(), "2 3 4 5 (120)");
  EXPECT_EQ(blob.bytes(), 480);
  EXPECT_THROW(blob.shape(4), Error);
  const Blob<float> row(Cpu(), {7});
  EXPECT_EQ(row.num(), 7);
  EXPECT_EQ(row.width(), 1);
  const Blob<float> five(Cpu(), {1, 1, 1, 1, 1});
  EXPECT_THROW(five.num(), Error);
  const Blob<float> scalar(Cpu(), Shape{});
  EXPECT_EQ(scalar.count(), 1);
}

TEST(BlobTest, RefusesShapesThatNoMemoryHolds) {
  auto blob = MakeBlob(kFloat, Cpu(), {2}, "conv1");
  EXPECT_TRUE(Holds(MessageOf([&] { blob->Reshape({-1, 2}); }), "conv1"));
  EXPECT_TRUE(Holds(MessageOf([&] { blob->Reshape({int64_t{1} << 40, 1 << 20}); }), "conv1"));
  EXPECT_TRUE(Holds(MessageOf([&] { blob->Reshape(Shape(33, 1)); }), "33 axes"));
  EXPECT_EQ(blob->shape(), Shape({2}));  // unchanged
}

TEST(BlobTest, ASmallerShapeKeepsTheMemory) {
  Blob<float> blob(Cpu(), {4, 4});
  blob.mutable_cpu_data()[3] = 5;
  const float* memory = blob.cpu_data();
  blob.Reshape({2, 2});
  EXPECT_EQ(blob.cpu_data(), memory);
  EXPECT_EQ(blob.cpu_data()[3], 5);
  blob.Reshape({16});
  EXPECT_EQ(blob.cpu_data(), memory);
  blob.Reshape({17});
  EXPECT_EQ(blob.cpu_data()[3], 0);  // new memory
}

TEST(BlobTest, AShapeThatDidNotFitIsForgotten) {
  Blob<float> blob(Cpu(), {1 << 20, 1 << 20});
  EXPECT_THROW(blob.mutable_device_data(), Error);
  EXPECT_THROW(blob.mutable_device_diff(), Error);
  blob.Reshape({2});
  blob.SetData({1, 2});
  EXPECT_EQ(blob.DataAsDouble(), (std::vector<double>{1, 2}));
  EXPECT_EQ(blob.data_memory()->bytes(), 8);
  blob.mutable_device_diff();
}

TEST(BlobTest, TheTypedFaceChecksTheType) {
  auto blob = MakeBlob(kHalf, Cpu(), {3}, "x");
  EXPECT_EQ(&As<half>(*blob), blob.get());
  EXPECT_TRUE(Holds(MessageOf([&] { As<float>(*blob); }), "blob x holds half, not float"));
}

TEST(BlobTest, ValuesAreRoundedOnce) {
  auto blob = MakeBlob(kHalf, Cpu(), {2}, "x");
  blob->SetData({1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40), -2});
  EXPECT_EQ(blob->DataAsDouble(), std::vector<double>({1 + std::ldexp(1.0, -10), -2}));
  EXPECT_THROW(blob->SetData({1}), Error);
  blob->SetDiff({3, 4});
  EXPECT_EQ(blob->DiffAsDouble(), std::vector<double>({3, 4}));
  EXPECT_EQ(blob->asum_diff(), 7);
  EXPECT_EQ(blob->sumsq_diff(), 25);
}

TEST(BlobTest, SharesDataAndDiff) {
  Blob<float> a(Cpu(), {2, 3}), b(Cpu(), {6}), c(Cpu(), {7});
  a.SetData({1, 2, 3, 4, 5, 6});
  b.ShareData(a);
  b.ShareDiff(a);
  EXPECT_EQ(b.cpu_data(), a.cpu_data());
  b.mutable_cpu_data()[0] = 10;
  EXPECT_EQ(a.cpu_data()[0], 10);
  const uint64_t version = a.data_version();
  b.mutable_cpu_data();
  EXPECT_GT(a.data_version(), version);  // one memory, one version
  b.mutable_cpu_diff()[1] = 11;
  EXPECT_EQ(a.cpu_diff()[1], 11);
  EXPECT_THROW(c.ShareData(a), Error);
  Blob<half> narrow(Cpu(), {6});
  EXPECT_THROW(narrow.ShareDiff(a), Error);
}

TEST(BlobTest, SharesNothingWithAnotherDevice) {
  for (Device* device : TestDevices()) {
    if (device == Cpu()) continue;
    Blob<float> here(Cpu(), {4}), there(device, {4});
    for (const bool diff : {false, true}) {
      try {
        diff ? here.ShareDiff(there) : here.ShareData(there);
        ADD_FAILURE() << device->info().id;
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("on cpu"), std::string::npos) << message;
        EXPECT_NE(message.find("on " + device->info().id), std::string::npos) << message;
        EXPECT_NE(message.find(diff ? "diff" : "data"), std::string::npos) << message;
      }
    }
  }
}

TEST(BlobTest, LiesInAnArena) {
  for (Device* device : TestDevices()) {
    const auto arena = std::make_shared<DeviceBuffer>(device, 64, "arena");
    Blob<float> a(device, {4}), b(device, {8});
    a.SetData({1, 2, 3, 4});
    a.data_memory()->MoveInto(arena, 0);
    b.data_memory()->MoveInto(arena, 16);
    b.mutable_cpu_data()[0] = 5;
    EXPECT_EQ(a.gpu_data().base, arena->pointer());
    EXPECT_EQ(b.gpu_data().base, arena->pointer() + 16);
    float values[5];
    device->Download(values, arena->pointer(), sizeof(values));
    EXPECT_EQ(std::vector<float>(values, values + 5), std::vector<float>({1, 2, 3, 4, 5}));
    EXPECT_TRUE(Holds(MessageOf([&] { b.data_memory()->MoveInto(arena, 40); }),
                      "32 bytes at offset 40 do not fit in arena of 64 bytes"));
  }
}

TEST(BlobTest, CopiesWithConversion) {
  Blob<double> a(Cpu(), {3});
  Blob<bfloat16> b(Cpu(), {3, 1});
  a.SetData({1, 0.5, -3});
  b.CopyDataFrom(a);
  EXPECT_EQ(b.DataAsDouble(), a.DataAsDouble());
  Blob<double> c(Cpu(), {4});
  EXPECT_THROW(c.CopyDataFrom(a), Error);
}

TEST(BlobTest, MovesToAnotherDevice) {
  NullDevice device;
  Blob<float> blob(Cpu(), {3});
  blob.SetData({1, 2, 3});
  blob.SetDiff({4, 5, 6});
  blob.SetDevice(&device);
  EXPECT_EQ(blob.device(), &device);
  EXPECT_EQ(reinterpret_cast<const float*>(blob.device_data().address())[2], 3);
  EXPECT_EQ(blob.DiffAsDouble(), std::vector<double>({4, 5, 6}));
  blob.SetDevice(Cpu());
}

class BlobProtoTest : public testing::TestWithParam<DataType> {};

TEST_P(BlobProtoTest, RoundTrip) {
  const DataType type = GetParam();
  auto blob = MakeBlob(type, Cpu(), {2, 1, 3}, "x");
  auto* data = static_cast<unsigned char*>(blob->mutable_host_data());
  auto* diff = static_cast<unsigned char*>(blob->mutable_host_diff());
  for (int64_t i = 0; i < blob->bytes(); ++i) {
    data[i] = static_cast<unsigned char>(i * 5 + 1);
    diff[i] = static_cast<unsigned char>(i * 3 + 2);
  }
  BlobProto proto;
  blob->ToProto(&proto, true);
  // Through bytes, as in a file.
  BlobProto read;
  ASSERT_TRUE(read.ParseFromString(proto.SerializeAsString()));
  EXPECT_EQ(proto.has_packed_data(), type != kFloat && type != kDouble);
  auto back = MakeBlob(type, Cpu(), {0}, "y");
  back->FromProto(read);
  EXPECT_EQ(back->shape(), blob->shape());
  EXPECT_EQ(std::memcmp(back->host_data(), data, blob->bytes()), 0);
  EXPECT_EQ(std::memcmp(back->host_diff(), diff, blob->bytes()), 0);
  blob->ToProto(&proto, false);
  EXPECT_EQ(proto.diff_size() + proto.double_diff_size(), 0);
  EXPECT_FALSE(proto.has_packed_diff());
}

INSTANTIATE_TEST_SUITE_P(Types, BlobProtoTest, testing::ValuesIn(BuiltInTypes()),
                         [](const auto& info) { return info.param.name(); });

TEST(BlobProtoTest, WeightsOfOneTypeFillBlobsOfAnother) {
  for (DataType from : FloatTypes()) {
    auto blob = MakeBlob(from, Cpu(), {3}, "x");
    blob->SetData({1, -0.5, 96});
    BlobProto proto;
    blob->ToProto(&proto);
    for (DataType to : FloatTypes()) {
      auto other = MakeBlob(to, Cpu(), {0}, "y");
      other->FromProto(proto);
      EXPECT_EQ(other->DataAsDouble(), blob->DataAsDouble()) << from.name() << " " << to.name();
    }
  }
}

BlobProto LegacyProto(int num, int channels, int height, int width) {
  BlobProto proto;
  proto.set_num(num);
  proto.set_channels(channels);
  proto.set_height(height);
  proto.set_width(width);
  for (int i = 0; i < num * channels * height * width; ++i) proto.add_data(static_cast<float>(i));
  return proto;
}

// Files before N-dimensional blobs have four extents; biases were 1 x 1 x 1 x N.
TEST(BlobProtoTest, LegacyShapesFitFromTheRight) {
  Blob<float> bias(Cpu(), {6});
  bias.FromProto(LegacyProto(1, 1, 1, 6), false);
  EXPECT_EQ(bias.shape(), Shape({6}));
  EXPECT_EQ(bias.cpu_data()[5], 5);
  Blob<float> weights(Cpu(), {2, 3});
  weights.FromProto(LegacyProto(1, 1, 2, 3), false);
  EXPECT_TRUE(weights.ShapeEquals(LegacyProto(1, 1, 2, 3)));
  EXPECT_FALSE(weights.ShapeEquals(LegacyProto(1, 1, 3, 2)));
  EXPECT_FALSE(weights.ShapeEquals(LegacyProto(2, 3, 1, 1)));
  Blob<float> taken(Cpu(), {1});
  taken.FromProto(LegacyProto(2, 1, 1, 3));
  EXPECT_EQ(taken.shape(), Shape({2, 1, 1, 3}));
}

TEST(BlobProtoTest, WhatDoesNotFitIsNamed) {
  auto blob = MakeBlob(kFloat, Cpu(), {2, 3}, "ip1.0");
  const std::string shape = MessageOf([&] { blob->FromProto(LegacyProto(1, 1, 3, 3), false); });
  EXPECT_TRUE(Holds(shape, "ip1.0"));
  EXPECT_TRUE(Holds(shape, "2 3 (6)"));
  EXPECT_TRUE(Holds(shape, "1 1 3 3 (9)"));
  BlobProto few;
  few.mutable_shape()->add_dim(2);
  few.mutable_shape()->add_dim(3);
  few.add_data(1);
  EXPECT_TRUE(Holds(MessageOf([&] { blob->FromProto(few, false); }), "needs 6 elements"));
  few.clear_data();
  few.set_data_type(CAFFE_HALF);
  few.set_packed_data(std::string(11, 'x'));  // five and a half elements
  EXPECT_TRUE(Holds(MessageOf([&] { blob->FromProto(few, false); }), "ip1.0"));
}

}  // namespace
}  // namespace caffe
