#include "caffe/solver/parameter_arena.hpp"

#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kBlockBytes = ParameterArena::kBlock * sizeof(float);

// Parameters in the order of their layers: weights with multipliers 1 and 1, biases with 2 and 0.
class Parameters {
 public:
  explicit Parameters(Device* device,
                      const std::vector<DataType>& types = {kFloat, kFloat, kFloat, kFloat}) {
    for (int i = 0; i < 4; ++i) {
      const int64_t count = i % 2 ? 70 : 100;
      blobs.push_back(MakeBlob(types[i], device, {count}, "p" + std::to_string(i)));
      values.push_back(TestNumbers(count, i));
      blobs[i]->SetData(values[i]);
      learnable.blobs.push_back(blobs[i].get());
      learnable.lr_mult.push_back(i % 2 ? 2.f : 1.f);
      learnable.decay_mult.push_back(i % 2 ? 0.f : 1.f);
    }
  }
  void ExpectValues() {
    for (size_t i = 0; i < blobs.size(); ++i) EXPECT_EQ(blobs[i]->DataAsDouble(), values[i]) << i;
  }
  const std::shared_ptr<DeviceBuffer>& DataBuffer(int i) {
    return blobs[i]->data_memory()->buffer();
  }

  std::vector<std::shared_ptr<BlobBase>> blobs;
  std::vector<std::vector<double>> values;
  LearnableParameters learnable;
};

class ParameterArenaTest : public testing::TestWithParam<Device*> {};

// Each blob has 2 blocks.
TEST_P(ParameterArenaTest, BucketsHaveTheOrderOfTheBackwardPass) {
  Parameters parameters(GetParam());
  const ParameterArena arena(parameters.learnable, GetParam());
  using Buckets = std::vector<GradientBucket>;
  const int64_t blob = 2 * kBlockBytes;
  EXPECT_EQ(arena.Buckets(1), (Buckets{{0, 0, blob, {3}},
                                       {0, blob, 2 * blob, {2}},
                                       {0, 2 * blob, 3 * blob, {1}},
                                       {0, 3 * blob, 4 * blob, {0}}}));
  EXPECT_EQ(arena.Buckets(blob + 1),
            (Buckets{{0, 0, 2 * blob, {3, 2}}, {0, 2 * blob, 4 * blob, {1, 0}}}));
  EXPECT_EQ(arena.Buckets(3 * blob),
            (Buckets{{0, 0, 3 * blob, {3, 2, 1}}, {0, 3 * blob, 4 * blob, {0}}}));
  EXPECT_EQ(arena.Buckets(100 * blob), (Buckets{{0, 0, 4 * blob, {3, 2, 1, 0}}}));
}

// Doubles have buckets of their own.
TEST_P(ParameterArenaTest, BucketsOfTwoTypesAlternateAsTheirLayersDo) {
  if (!GetParam()->info().fp64) GTEST_SKIP() << "the device has no double";
  Parameters parameters(GetParam(), {kFloat, kDouble, kFloat, kDouble});
  const ParameterArena arena(parameters.learnable, GetParam());
  std::vector<std::vector<int>> members;
  for (const GradientBucket& bucket : arena.Buckets(1)) members.push_back(bucket.members);
  EXPECT_EQ(members, (std::vector<std::vector<int>>{{3}, {2}, {1}, {0}}));
}

// One buffer for data and one for diffs, later parameters first, whatever their multipliers.
TEST_P(ParameterArenaTest, LiesInTheOrderOfTheBackwardPass) {
  Parameters parameters(GetParam());
  ParameterArena arena(parameters.learnable, GetParam());
  ASSERT_EQ(arena.parts().size(), 1u);
  EXPECT_EQ(arena.parts()[0].count, 8 * ParameterArena::kBlock);
  arena.ClearDiffs();
  for (int i = 0; i < 4; ++i) {
    const SyncedMemory& data = *parameters.blobs[i]->data_memory();
    const SyncedMemory& diff = *parameters.blobs[i]->diff_memory();
    EXPECT_EQ(data.buffer(), parameters.DataBuffer(0));
    EXPECT_EQ(diff.buffer(), parameters.blobs[0]->diff_memory()->buffer());
    EXPECT_EQ(data.offset(), (3 - i) * 2 * kBlockBytes);
    EXPECT_EQ(diff.offset(), data.offset());
  }
  parameters.ExpectValues();
  EXPECT_EQ(parameters.blobs[1]->DiffAsDouble(), std::vector<double>(70, 0));
}

TEST_P(ParameterArenaTest, TheTableHasTheMultipliersOfEachBlock) {
  Parameters parameters(GetParam());
  ParameterArena arena(parameters.learnable, GetParam());
  EXPECT_EQ(arena.parts()[0].multipliers->DataAsDouble(),
            std::vector<double>({2, 0, 2, 0, 1, 1, 1, 1, 2, 0, 2, 0, 1, 1, 1, 1}));
}

TEST_P(ParameterArenaTest, EachTypeHasItsPart) {
  if (!GetParam()->info().fp64) GTEST_SKIP() << "no double";
  Parameters parameters(GetParam(), {kFloat, kDouble, kFloat, kDouble});
  ParameterArena arena(parameters.learnable, GetParam());
  ASSERT_EQ(arena.parts().size(), 2u);
  EXPECT_EQ(arena.parts()[0].type, kDouble);
  EXPECT_EQ(arena.parts()[0].members, std::vector<int>({3, 1}));
  EXPECT_EQ(arena.parts()[1].members, std::vector<int>({2, 0}));
  arena.ClearDiffs();
  EXPECT_EQ(parameters.blobs[1]->data_memory()->offset(), 2 * 2 * kBlockBytes);
  parameters.ExpectValues();
}

TEST_P(ParameterArenaTest, ClearIsOneFillThatEveryParameterSees) {
  Parameters parameters(GetParam());
  ParameterArena arena(parameters.learnable, GetParam());
  for (const auto& blob : parameters.blobs) blob->SetDiff(std::vector<double>(blob->count(), 3));
  const auto view = parameters.blobs[2]->diff_memory()->View();
  arena.ClearDiffs();
  for (const auto& blob : parameters.blobs) {
    EXPECT_EQ(blob->DiffAsDouble(), std::vector<double>(blob->count(), 0));
  }
  EXPECT_EQ(static_cast<const float*>(view.get())[5], 0);
  // Values that the host wrote and a launch overwrites are not uploaded.
  for (const auto& blob : parameters.blobs) blob->mutable_host_diff();
  GetParam()->ResetCounters();
  arena.ClearDiffs();
  EXPECT_EQ(GetParam()->counters().uploads, 0);
  EXPECT_EQ(GetParam()->counters().allocations, 0);
}

// A launch over all of it reads what was written on the host, and readers see what it wrote.
TEST_P(ParameterArenaTest, OneLaunchReachesAll) {
  Device* device = GetParam();
  Parameters parameters(device);
  ParameterArena arena(parameters.learnable, device);
  ParameterArena::Part& part = arena.parts()[0];
  arena.ClearDiffs();
  parameters.values[2] = TestNumbers(100, 77);
  parameters.blobs[2]->SetData(parameters.values[2]);
  const DevicePtr data = part.data.Read(), diff = part.diff.ReadAndWrite();
  device->Copy(diff, data, part.count * static_cast<int64_t>(sizeof(float)));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(parameters.blobs[i]->DiffAsDouble(), parameters.values[i]) << i;
  }
}

TEST_P(ParameterArenaTest, FollowsItsBlobsToAnotherDevice) {
  NullDevice other;
  Parameters parameters(GetParam());
  ParameterArena arena(parameters.learnable, GetParam());
  arena.ClearDiffs();
  const auto view = parameters.blobs[1]->data_memory()->View();
  const std::weak_ptr<DeviceBuffer> before = parameters.DataBuffer(0);
  for (Device* to : {static_cast<Device*>(&other), GetParam(), Runtime::Get().cpu(), GetParam()}) {
    for (const auto& blob : parameters.blobs) blob->SetDevice(to);
    if (to == &other) {
      EXPECT_TRUE(before.expired()) << "a part stayed on the first device";
    }
    arena.SetDevice(to);
    arena.ClearDiffs();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(parameters.DataBuffer(i), parameters.DataBuffer(0));
      EXPECT_EQ(parameters.DataBuffer(i)->device(), to);
    }
    // The view stays live, in one arena with all others.
    float& value = static_cast<float*>(view.get())[3];
    value += 1;
    parameters.values[1][3] = value;
    parameters.blobs[1]->data_memory()->MarkHostWritten();
    arena.parts()[0].data.ReadAndWrite();
    parameters.ExpectValues();
  }
}

// As after ShareTrainedLayersWith: the solver trains the memory that is shared.
TEST_P(ParameterArenaTest, TakesInTheMemoryThatABlobShares) {
  Device* device = GetParam();
  Parameters parameters(device);
  ParameterArena arena(parameters.learnable, device);
  arena.ClearDiffs();
  const auto other = MakeBlob(kFloat, device, {100}, "other");
  other->SetData(std::vector<double>(100, 0.5));
  parameters.blobs[0]->ShareData(*other);
  arena.parts()[0].data.ReadAndWrite();
  EXPECT_EQ(other->data_memory()->buffer(), parameters.DataBuffer(1));
  EXPECT_EQ(other->DataAsDouble(), std::vector<double>(100, 0.5));
}

// As layers that share a parameter in another shape (PERMISSIVE).
TEST_P(ParameterArenaTest, AnotherShapeOnTheSameMemoryMovesAlong) {
  Device* device = GetParam();
  Parameters parameters(device);
  const auto other = MakeBlob(kFloat, device, {10, 10}, "other");
  other->ShareData(*parameters.blobs[2]);
  other->ShareDiff(*parameters.blobs[2]);
  ParameterArena arena(parameters.learnable, device);
  arena.ClearDiffs();
  EXPECT_EQ(other->device_data(), parameters.blobs[2]->device_data());
  other->SetDiff(TestNumbers(100, 5));
  EXPECT_EQ(parameters.blobs[2]->DiffAsDouble(), TestNumbers(100, 5));
  parameters.ExpectValues();
}

TEST_P(ParameterArenaTest, AParameterThatGrewIsAnError) {
  Parameters parameters(GetParam());
  ParameterArena arena(parameters.learnable, GetParam());
  arena.ClearDiffs();
  parameters.blobs[1]->Reshape({2, 3000});
  const std::string message = ErrorOf([&] { arena.ClearDiffs(); });
  EXPECT_TRUE(Holds(message, "parameter p1 was reshaped to 2 3000"));
}

INSTANTIATE_TEST_SUITE_P(Devices, ParameterArenaTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           std::string name = info.param->info().id;
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

TEST(ParameterArenaErrorsTest, OnlyFloatAndDoubleAreTrained) {
  Device* cpu = Runtime::Get().cpu();
  Parameters parameters(cpu, {kFloat, kHalf, kFloat, kFloat});
  EXPECT_TRUE(Holds(ErrorOf([&] { ParameterArena arena(parameters.learnable, cpu); }),
                    "parameter p1 holds half; only float and double can be trained"));
}

}  // namespace
}  // namespace caffe
