#include "caffe/memory/access_log.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"

namespace caffe {
namespace {

class AccessLogTest : public testing::Test {
 protected:
  std::shared_ptr<SyncedMemory> Make() {
    return std::make_shared<SyncedMemory>(16, &device_, "test");
  }
  NullDevice device_;
};

TEST_F(AccessLogTest, ListsTheFirstUseOfEachMemory) {
  const auto read = Make(), written = Make(), both = Make(), unused = Make();
  AccessLog log;
  read->device_data();
  written->mutable_device_data();
  both->device_data();
  EXPECT_EQ(log.TakeWritten(), std::vector<SyncedMemory*>{written.get()});
  both->MarkDeviceWritten();
  written->mutable_device_data();
  EXPECT_EQ(log.TakeWritten(), (std::vector<SyncedMemory*>{both.get(), written.get()}));
  EXPECT_TRUE(log.TakeWritten().empty());
  const std::vector<AccessLog::Use> uses = log.End();
  unused->device_data();  // after the end
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].memory, read.get());
  EXPECT_FALSE(uses[0].writes);
  EXPECT_EQ(uses[0].pointer, read->device_data());
  EXPECT_EQ(uses[1].memory, written.get());
  EXPECT_TRUE(uses[1].writes);
  EXPECT_EQ(uses[1].pointer, written->device_data());
  EXPECT_FALSE(uses[2].writes);
  EXPECT_FALSE(uses[2].borrowed);
}

TEST_F(AccessLogTest, KnowsBorrowedSlices) {
  const auto arena = std::make_shared<DeviceBuffer>(&device_, 64, "arena");
  const auto borrowed = Make(), moved = Make();
  AccessLog log;
  moved->mutable_device_data();
  borrowed->Borrow(arena, 16);
  borrowed->mutable_device_data();
  moved->Borrow(arena, 32);
  const std::vector<AccessLog::Use> uses = log.End();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_FALSE(uses[0].borrowed);
  EXPECT_FALSE(uses[0].pointer);  // it is not where it was
  EXPECT_TRUE(uses[1].borrowed);
}

TEST_F(AccessLogTest, UndoRestoresEveryState) {
  class Nothing final : public SyncedMemory::Source {
    void Make(SyncedMemory* memory) override { memory->mutable_device_data(); }
  };
  const auto source = std::make_shared<Nothing>();
  const auto arena = std::make_shared<DeviceBuffer>(&device_, 64, "arena");
  const auto host = Make(), device = Make(), borrowed = Make(), dropped = Make(),
             overwritten = Make();
  host->mutable_host_data();
  std::memset(overwritten->mutable_host_data(), 7, 16);
  device->mutable_device_data();
  borrowed->Borrow(arena, 16);
  borrowed->mutable_device_data();
  dropped->mutable_device_data();
  const std::vector<std::shared_ptr<SyncedMemory>> all{host, device, borrowed, dropped,
                                                       overwritten};
  std::vector<uint64_t> versions;
  std::vector<DevicePtr> pointers;
  for (const auto& memory : all) versions.push_back(memory->version());
  for (const auto& memory : {device, borrowed, dropped}) pointers.push_back(memory->device_data());
  AccessLog log;
  host->MarkDeviceWritten();
  device->mutable_device_data();
  borrowed->Return();
  dropped->SetSource(source);
  overwritten->overwrite_device_data(16);
  log.Undo();
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]->version(), versions[i]) << i;
  EXPECT_TRUE(borrowed->borrowed());
  EXPECT_TRUE(dropped->stored());
  size_t i = 0;
  for (const auto& memory : {device, borrowed, dropped}) {
    EXPECT_EQ(memory->device_data(), pointers[i++]);
  }
  device_.ResetCounters();
  host->device_data();  // the host's content is the newest again
  EXPECT_EQ(device_.counters().uploads, 1);
  device->host_data();
  EXPECT_EQ(device_.counters().downloads, 1);
  EXPECT_EQ(overwritten->device_data().address()[15], 7);
}

TEST_F(AccessLogTest, AThreadHasOneLog) {
  AccessLog log;
  EXPECT_THROW(AccessLog second, Error);
  log.End();
  AccessLog third;
}

}  // namespace
}  // namespace caffe
