// Which freed buffers a device keeps, and which go back to the system.
#include "caffe/device/freed_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/graph.hpp"
#include "support/devices.hpp"
#include "support/keeping_device.hpp"
#include "support/scoped_variable.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

int64_t Held(const Device& device) { return device.bytes_in_use() + FreedBytes(device); }

// The resident memory of this process, in bytes.
int64_t Resident() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(FreedMemoryTest, ManySizesInTurnHoldLittleMoreThanTheLargest) {
  for (Device* device : TestDevices()) {
    ReleaseMemory();
    const int64_t before = Held(*device);
    std::minstd_rand random(1);
    std::vector<DevicePtr> net;
    for (int i = 0; i < 300; ++i) {
      // An arena and two smaller buffers, as of a net that gets another shape.
      for (const DevicePtr& pointer : net) device->Free(pointer);
      const int64_t size = kMebibyte / 2 + random() % (8 * kMebibyte);
      net = {device->Allocate(size, "a test"), device->Allocate(size / 5, "a test"),
             device->Allocate(100 + size / 500, "a test")};
      EXPECT_LE(Held(*device) - before, 15 * kMebibyte) << device->info().id << " " << i;
    }
    for (const DevicePtr& pointer : net) device->Free(pointer);
  }
}

TEST(FreedMemoryTest, ALargerBufferServesRatherThanANewOne) {
  CpuDevice device;
  device.Free(device.Allocate(40 * kMebibyte, "a test"));
  const DevicePtr smaller = device.Allocate(27 * kMebibyte, "a test");
  EXPECT_EQ(device.counters().allocations, 1);
  EXPECT_EQ(device.bytes_in_use(), 27 * kMebibyte);
  // Memory that it has too much counts as held.
  const DevicePtr other = device.Allocate(30 * kMebibyte, "a test");
  EXPECT_EQ(device.counters().allocations, 2);
  device.Free(smaller);
  EXPECT_LE(Held(device), 72 * kMebibyte);
  device.Free(other);
}

TEST(FreedMemoryTest, RequestsThatRepeatAllocateNothing) {
  CpuDevice device;
  const auto round = [&] {
    std::vector<DevicePtr> some;
    for (const int64_t size : {3 * kMebibyte, 9 * kMebibyte, int64_t{1000}, 5 * kMebibyte}) {
      some.push_back(device.Allocate(size, "a test"));
    }
    for (const DevicePtr& pointer : some) device.Free(pointer);
  };
  round();
  device.ResetCounters();
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_EQ(device.counters().allocations, 0);
}

TEST(FreedMemoryTest, AnOldPeakIsForgotten) {
  CpuDevice device;
  device.Free(device.Allocate(64 * kMebibyte, "a test"));
  EXPECT_EQ(FreedBytes(device), 64 * kMebibyte);
  for (int i = 0; i < 600; ++i) device.Free(device.Allocate(2 * kMebibyte - i, "a test"));
  EXPECT_LE(FreedBytes(device), 3 * kMebibyte);
}

TEST(FreedMemoryTest, TrimKeepsAsMuchAsIsInUse) {
  CpuDevice device;
  const DevicePtr used = device.Allocate(10 * kMebibyte, "a test");
  std::vector<DevicePtr> others;
  for (int i = 0; i < 4; ++i) others.push_back(device.Allocate(5 * kMebibyte, "a test"));
  for (const DevicePtr& pointer : others) device.Free(pointer);
  EXPECT_EQ(FreedBytes(device), 20 * kMebibyte);
  TrimFreedMemory(&device);
  EXPECT_EQ(FreedBytes(device), 10 * kMebibyte);
  // Memory that is freed before the next allocation belonged to the same net.
  device.Free(used);
  EXPECT_EQ(FreedBytes(device), 0);
}

TEST(FreedMemoryTest, ALimitCanBeSet) {
  CpuDevice device;
  SetMostFreedBytes(&device, 4 * kMebibyte);
  device.Free(device.Allocate(5 * kMebibyte, "a test"));
  EXPECT_EQ(FreedBytes(device), 0);
  std::vector<DevicePtr> some;
  for (int i = 0; i < 5; ++i) some.push_back(device.Allocate(kMebibyte, "a test"));
  for (const DevicePtr& pointer : some) device.Free(pointer);
  EXPECT_EQ(FreedBytes(device), 4 * kMebibyte);
  SetMostFreedBytes(&device, 0);
  EXPECT_EQ(FreedBytes(device), 0);
}

TEST(FreedMemoryTest, TheVariableSetsTheLimit) {
  {
    const ScopedVariable variable("CAFFE_FREED_MEMORY", "2");
    CpuDevice device;
    for (const int64_t size : {3 * kMebibyte, kMebibyte}) {
      device.Free(device.Allocate(size, "a test"));
    }
    EXPECT_EQ(FreedBytes(device), kMebibyte);
  }
  const ScopedVariable variable("CAFFE_FREED_MEMORY", "2M");
  testing::internal::CaptureStderr();
  CpuDevice device;
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "CAFFE_FREED_MEMORY is 2M, which is not a number of MiB from 0 to "))
      << log;
  device.Free(device.Allocate(3 * kMebibyte, "a test"));
  EXPECT_EQ(FreedBytes(device), 3 * kMebibyte);
}

TEST(FreedMemoryTest, NothingGoesToTheDriverWhileTheThreadRecords) {
  CpuDevice cpu;
  KeepingDevice device(&cpu);
  SetMostFreedBytes(&device, 0);
  const DevicePtr memory = device.Allocate(1000, "a test"), other = device.Allocate(9, "a test");
  {
    Capture capture(&device, GraphMode::kLinear);
    device.Free(memory);
    EXPECT_EQ(FreedBytes(device), 1024);
  }
  device.Free(other);
  EXPECT_EQ(FreedBytes(device), 0);
}

TEST(FreedMemoryTest, ReleaseMemoryReturnsThePagesOfAllDevices) {
  ReleaseMemory();
  const int64_t before = Resident();
  CpuDevice device;
  std::minstd_rand random(1);
  std::vector<DevicePtr> some;
  int64_t sum = 0;
  while (sum < 96 * kMebibyte) {
    const int64_t size = 200000 + random() % (6 * kMebibyte);
    some.push_back(device.Allocate(size, "a test"));
    std::memset(some.back().address(), 1, size);
    sum += size;
  }
  const DevicePtr kept = some.back();
  some.pop_back();
  for (const DevicePtr& pointer : some) device.Free(pointer);
  EXPECT_GE(Resident() - before, sum / 2);
  EXPECT_GE(ReleaseMemory(), sum - 8 * kMebibyte);
  EXPECT_EQ(FreedBytes(device), 0);
  EXPECT_LE(Resident() - before, 16 * kMebibyte);
  device.Free(kept);
}

}  // namespace
}  // namespace caffe
