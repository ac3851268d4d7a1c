#include "caffe/memory/workspace.hpp"

#include <gtest/gtest.h>

#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

TEST(DeviceBufferTest, HoldsMemoryAsLongAsItLives) {
  for (Device* device : TestDevices()) {
    const int64_t before = device->bytes_in_use();
    {
      const DeviceBuffer buffer(device, 1000, "a test");
      EXPECT_EQ(buffer.device(), device);
      EXPECT_EQ(buffer.bytes(), 1000);
      EXPECT_EQ(buffer.purpose(), "a test");
      EXPECT_TRUE(buffer.pointer());
      EXPECT_GE(device->bytes_in_use(), before + 1000);
    }
    EXPECT_EQ(device->bytes_in_use(), before) << device->info().id;
  }
}

TEST(DeviceBufferTest, NamesItsPurposeWhereThereIsNoMemory) {
  for (Device* device : TestDevices()) {
    try {
      const DeviceBuffer buffer(device, int64_t{1} << 50, "a large test");
      ADD_FAILURE() << device->info().id;
    } catch (const OutOfMemory& error) {
      EXPECT_TRUE(Holds(error.what(), "a large test asks for")) << error.what();
    }
  }
}

TEST(WorkspaceTest, GrowsToTheLargestNeed) {
  NullDevice device;
  Workspace workspace(&device);
  EXPECT_FALSE(workspace.Need(0));
  EXPECT_EQ(device.bytes_in_use(), 0);
  const DevicePtr first = workspace.Need(1024);
  ASSERT_TRUE(first);
  EXPECT_EQ(workspace.bytes(), 1024);
  device.ResetCounters();
  EXPECT_EQ(workspace.Need(512), first);
  EXPECT_EQ(workspace.Need(1024), first);
  EXPECT_EQ(device.counters().allocations, 0);
  EXPECT_EQ(workspace.bytes(), 1024);
  workspace.Need(1 << 20);
  EXPECT_EQ(workspace.bytes(), 1 << 20);
  EXPECT_EQ(device.bytes_in_use(), 1 << 20);  // the smaller one is free
  workspace.Release();
  EXPECT_EQ(workspace.bytes(), 0);
  EXPECT_EQ(device.bytes_in_use(), 0);
}

// Both buffers at a time could be more than the device has.
TEST(WorkspaceTest, FreesBeforeItGrows) {
  NullDevice device;
  Workspace workspace(&device);
  workspace.Need(1 << 20);
  device.ResetPeak();
  workspace.Need(3 << 20);
  EXPECT_EQ(device.bytes_peak(), 3 << 20);
}

TEST(WorkspaceTest, MovesToAnotherDevice) {
  NullDevice one, other;
  Workspace workspace(&one);
  workspace.Need(256);
  workspace.SetDevice(&one);
  EXPECT_EQ(workspace.bytes(), 256);
  workspace.SetDevice(&other);
  EXPECT_EQ(workspace.device(), &other);
  EXPECT_EQ(one.bytes_in_use(), 0);
  EXPECT_EQ(workspace.bytes(), 0);
  workspace.Need(256);
  EXPECT_EQ(other.bytes_in_use(), 256);
}

TEST(WorkspaceTest, ServesSmallerNeedsAfterAFailure) {
  for (Device* device : TestDevices()) {
    Workspace workspace(device, "columns");
    // Compared with what is available, or refused by the allocator.
    for (const bool checks : {true, false}) {
      const ScopedVariable check("CAFFE_MEMORY_CHECK", checks ? "on" : "off");
      workspace.Need(512);
      EXPECT_TRUE(Holds(ErrorOf([&] { workspace.Need(int64_t{1} << 50); }),
                        checks ? "columns needs 1125899906842624 bytes" : "columns asks for"));
      EXPECT_EQ(workspace.bytes(), 0);
      EXPECT_TRUE(workspace.Need(512)) << device->info().id;
    }
  }
  Workspace workspace(Runtime::Get().cpu(), "columns");
  EXPECT_TRUE(Holds(ErrorOf([&] { workspace.Need(-1); }), "columns: a need of -1 bytes"));
}

}  // namespace
}  // namespace caffe
