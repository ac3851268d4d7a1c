#include "caffe/memory/synced_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

// Copies are counted on a device whose memory is not the host's; the null device moves bytes.
class SyncedMemoryTest : public testing::Test {
 protected:
  NullDevice device_;
  SyncedMemory memory_{64, &device_, "a test"};
  int64_t uploads() const { return device_.counters().uploads; }
  int64_t downloads() const { return device_.counters().downloads; }
  char* host() { return static_cast<char*>(memory_.mutable_host_data()); }
  char DeviceByte(int64_t at) { return memory_.device_data().address()[at]; }
};

TEST_F(SyncedMemoryTest, TakesNothingBeforeItsFirstUse) {
  EXPECT_EQ(memory_.bytes(), 64);
  EXPECT_EQ(device_.bytes_in_use(), 0);
  memory_.host_data();
  EXPECT_EQ(device_.bytes_in_use(), 0);
  memory_.device_data();
  EXPECT_EQ(device_.bytes_in_use(), 256);
}

TEST_F(SyncedMemoryTest, FreshMemoryReadsAsZeros) {
  SyncedMemory other(64, &device_, "a test");
  const char zeros[64] = {};
  EXPECT_EQ(std::memcmp(memory_.host_data(), zeros, 64), 0);
  EXPECT_EQ(std::memcmp(other.device_data().address(), zeros, 64), 0);
  EXPECT_EQ(std::memcmp(other.host_data(), zeros, 64), 0);
  EXPECT_EQ(uploads(), 0);
}

TEST_F(SyncedMemoryTest, CopiesOnlyWhatIsStale) {
  host()[5] = 42;
  EXPECT_EQ(DeviceByte(5), 42);
  EXPECT_EQ(DeviceByte(5), 42);
  memory_.host_data();
  EXPECT_EQ(uploads(), 1);
  EXPECT_EQ(downloads(), 0);
  memory_.mutable_device_data().address()[5] = 43;
  EXPECT_EQ(static_cast<const char*>(memory_.host_data())[5], 43);
  EXPECT_EQ(static_cast<const char*>(memory_.host_data())[5], 43);
  EXPECT_EQ(uploads(), 1);
  EXPECT_EQ(downloads(), 1);
  host()[6] = 44;  // on top of what the device wrote
  EXPECT_EQ(DeviceByte(5), 43);
  EXPECT_EQ(DeviceByte(6), 44);
  EXPECT_EQ(uploads(), 2);
}

TEST_F(SyncedMemoryTest, EveryMutableAccessRaisesTheVersion) {
  const uint64_t first = memory_.version();
  memory_.host_data();
  memory_.device_data();
  EXPECT_EQ(memory_.version(), first);
  EXPECT_EQ(first, 0u);  // never written
  uint64_t last = first;
  const auto expect_raised = [&] {
    EXPECT_GT(memory_.version(), last);
    last = memory_.version();
  };
  memory_.mutable_host_data();
  expect_raised();
  memory_.mutable_device_data();
  expect_raised();
  memory_.MarkHostWritten();
  expect_raised();
}

TEST_F(SyncedMemoryTest, NoTwoMemoriesHaveOneVersion) {
  SyncedMemory other(64, &device_, "a test");
  std::set<uint64_t> versions;
  for (int i = 0; i < 3; ++i) {
    for (SyncedMemory* memory : {&memory_, &other}) {
      memory->mutable_host_data();
      EXPECT_TRUE(versions.insert(memory->version()).second) << memory->version();
    }
  }
}

TEST_F(SyncedMemoryTest, WhatAViewWroteIsUploaded) {
  host()[0] = 1;
  memory_.device_data();
  EXPECT_FALSE(memory_.has_view());
  auto view = memory_.View();
  EXPECT_TRUE(memory_.has_view());
  memory_.device_data();
  static_cast<char*>(view.get())[0] = 2;  // not noticed yet
  EXPECT_EQ(DeviceByte(0), 1);
  memory_.MarkHostWritten();
  EXPECT_EQ(DeviceByte(0), 2);
  view.reset();
  EXPECT_FALSE(memory_.has_view());
}

TEST_F(SyncedMemoryTest, WhatAViewWroteThatIsGoneIsUploaded) {
  host()[0] = 1;
  memory_.device_data();
  const uint64_t version = memory_.version();
  static_cast<char*>(memory_.View().get())[0] = 2;
  EXPECT_FALSE(memory_.has_view());
  EXPECT_GT(memory_.version(), version);
  EXPECT_EQ(DeviceByte(0), 2);
}

TEST_F(SyncedMemoryTest, AViewOutlivesTheMemory) {
  for (Device* device : {static_cast<Device*>(&device_), Runtime::Get().cpu()}) {
    std::shared_ptr<void> view;
    {
      SyncedMemory memory(64, device, "a test");
      static_cast<char*>(memory.mutable_host_data())[63] = 9;
      view = memory.View();
    }
    EXPECT_EQ(static_cast<char*>(view.get())[63], 9);
  }
}

TEST_F(SyncedMemoryTest, MovesToAnotherDeviceWithItsContent) {
  NullDevice other;
  memory_.mutable_device_data().address()[7] = 70;
  memory_.SetDevice(&other);
  EXPECT_EQ(memory_.device(), &other);
  EXPECT_EQ(device_.bytes_in_use(), 0);
  EXPECT_EQ(DeviceByte(7), 70);
  memory_.SetDevice(Runtime::Get().cpu());
  EXPECT_EQ(other.bytes_in_use(), 0);
  EXPECT_EQ(DeviceByte(7), 70);
  memory_.SetDevice(&device_);
  EXPECT_EQ(DeviceByte(7), 70);
}

TEST_F(SyncedMemoryTest, AViewStaysLiveAcrossAMove) {
  host()[3] = 1;
  auto view = memory_.View();
  NullDevice other;
  memory_.SetDevice(&other);
  ASSERT_TRUE(memory_.has_view());
  static_cast<char*>(view.get())[3] = 33;
  memory_.MarkHostWritten();
  EXPECT_EQ(DeviceByte(3), 33);
  memory_.SetDevice(&device_);  // before `other` goes
}

TEST(SyncedMemoryOnTheCpuTest, HostAndDeviceAreOne) {
  Device* cpu = Runtime::Get().cpu();
  SyncedMemory memory(64, cpu, "a test");
  const DeviceCounters before = cpu->counters();
  EXPECT_EQ(memory.mutable_host_data(), memory.mutable_device_data().address());
  static_cast<char*>(memory.mutable_host_data())[1] = 11;
  EXPECT_EQ(memory.device_data().address()[1], 11);
  EXPECT_EQ(cpu->counters().uploads, before.uploads);
  EXPECT_EQ(cpu->counters().downloads, before.downloads);
}

TEST(SyncedMemoryOnTheCpuTest, RefusesNegativeSizes) {
  EXPECT_THROW(SyncedMemory(-1, Runtime::Get().cpu(), "a test"), Error);
}

}  // namespace
}  // namespace caffe
