// Writes of all of a memory's content: nothing of the old content is uploaded, downloaded or made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/memory/memory_watch.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr int64_t kBytes = 64;

std::string HostBytes(SyncedMemory& memory) {
  return {static_cast<const char*>(memory.host_data()), kBytes};
}

std::string DeviceBytes(SyncedMemory& memory) {
  std::string bytes(kBytes, 0);
  memory.device()->Download(bytes.data(), memory.device_data(), kBytes);
  return bytes;
}

std::string Bytes(char value) { return std::string(kBytes, value); }

void SetHost(SyncedMemory& memory, char value) {
  std::memset(memory.mutable_host_data(), value, kBytes);
}

void SetDevice(SyncedMemory& memory, char value) {
  memory.device()->Fill(memory.mutable_device_data(), value, kBytes);
}

struct CountingSource : SyncedMemory::Source {
  int made = 0;
  void Make(SyncedMemory* memory) override {
    ++made;
    SetHost(*memory, 3);
  }
};

class OverwriteTest : public testing::Test {
 protected:
  // One whose memory is the host's, and others: the null device moves bytes without launches.
  std::vector<Device*> Devices() {
    std::vector<Device*> devices = TestDevices();
    devices.push_back(&null_);
    return devices;
  }
  std::shared_ptr<DeviceBuffer> MakeArena(Device* device) {
    auto arena = std::make_shared<DeviceBuffer>(device, 2 * kBytes, "arena");
    device->Fill(arena->pointer(), 0x77, arena->bytes());
    return arena;
  }
  static int64_t Moves(Device* device) {
    const DeviceCounters counters = device->counters();
    return counters.uploads + counters.downloads + counters.copies;
  }

  NullDevice null_;
  std::shared_ptr<CountingSource> source_ = std::make_shared<CountingSource>();
  std::shared_ptr<void> view_;
  // The states of a memory before it is overwritten.
  struct Before {
    const char* name;
    std::function<void(SyncedMemory&)> set;
  };
  const std::vector<Before> all_{
      {"new", [](SyncedMemory&) {}},
      {"written on the host", [](SyncedMemory& m) { SetHost(m, 1); }},
      {"written on the device", [](SyncedMemory& m) { SetDevice(m, 1); }},
      {"written on the host after the device",
       [](SyncedMemory& m) {
         SetDevice(m, 1);
         SetHost(m, 2);
       }},
      {"with a view",
       [this](SyncedMemory& m) {
         SetDevice(m, 1);
         view_ = m.View();
       }},
      {"a slice",
       [this](SyncedMemory& m) {
         m.MoveInto(MakeArena(m.device()), kBytes);
         SetHost(m, 1);
       }},
      {"a slice with a view",
       [this](SyncedMemory& m) {
         m.MoveInto(MakeArena(m.device()), kBytes);
         view_ = m.View();
       }},
      {"borrowed", [this](SyncedMemory& m) { m.Borrow(MakeArena(m.device()), kBytes); }},
      {"not stored", [this](SyncedMemory& m) { m.SetSource(source_); }},
      {"not stored, with a view",
       [this](SyncedMemory& m) {
         view_ = m.View();
         m.OwnSource(source_);
       }},
      {"in another form", [this](SyncedMemory& m) { m.SetForm(source_); }},
      {"freed",
       [this](SyncedMemory& m) {
         SetDevice(m, 1);
         m.FreeUntilAccess(source_);
       }},
      {"adopted",
       [](SyncedMemory& m) {
         const auto bytes = std::make_shared<std::string>(Bytes(5));
         m.Adopt({bytes, bytes->data()});
       }},
      {"discarded",
       [](SyncedMemory& m) {
         SetHost(m, 1);
         m.Discard();
       }},
  };
};

TEST_F(OverwriteTest, NothingIsBroughtOrMade) {
  for (Device* device : Devices()) {
    for (const Before& before : all_) {
      for (const bool on_device : {false, true}) {
        SCOPED_TRACE(device->info().id + ", " + before.name + (on_device ? ", device" : ", host"));
        SyncedMemory memory(kBytes, device, "a test");
        before.set(memory);
        const uint64_t version = memory.version();
        const int64_t moves = Moves(device);
        if (on_device) {
          device->Fill(memory.overwrite_device_data(kBytes), 9, kBytes);
        } else {
          std::memset(memory.overwrite_host_data(kBytes), 9, kBytes);
        }
        EXPECT_EQ(Moves(device), moves);
        EXPECT_EQ(source_->made, 0);
        EXPECT_GT(memory.version(), version);
        EXPECT_TRUE(memory.stored());
        EXPECT_FALSE(memory.adopted());
        EXPECT_EQ(memory.form(), nullptr);
        EXPECT_EQ(HostBytes(memory), Bytes(9));
        EXPECT_EQ(DeviceBytes(memory), Bytes(9));
        if (view_) {
          EXPECT_EQ(std::string(static_cast<char*>(view_.get()), kBytes), Bytes(9));
        }
        // The next write is an ordinary one.
        static_cast<char*>(memory.mutable_host_data())[0] = 4;
        EXPECT_EQ(DeviceBytes(memory), std::string(1, 4) + std::string(kBytes - 1, 9));
        device->Fill(memory.mutable_device_data(), 6, 1);
        EXPECT_EQ(HostBytes(memory), std::string(1, 6) + std::string(kBytes - 1, 9));
        view_.reset();
      }
    }
  }
}

TEST_F(OverwriteTest, NewMemoryIsNotCleared) {
  for (Device* device : Devices()) {
    SyncedMemory memory(kBytes, device, "a test");
    memory.MoveInto(MakeArena(device), kBytes);
    memory.overwrite_device_data(kBytes);
    EXPECT_EQ(DeviceBytes(memory), Bytes(0x77)) << device->info().id;
  }
}

TEST_F(OverwriteTest, AdoptedBytesAreNotWritten) {
  for (Device* device : Devices()) {
    for (const bool on_device : {false, true}) {
      const auto bytes = std::make_shared<std::string>(Bytes(5));
      SyncedMemory memory(kBytes, device, "a test");
      memory.Adopt({bytes, bytes->data()});
      if (on_device) {
        device->Fill(memory.overwrite_device_data(kBytes), 9, kBytes);
      } else {
        std::memset(memory.overwrite_host_data(kBytes), 9, kBytes);
      }
      EXPECT_EQ(HostBytes(memory), Bytes(9)) << device->info().id;
      EXPECT_EQ(*bytes, Bytes(5)) << device->info().id;
    }
  }
}

TEST_F(OverwriteTest, DiscardedContentIsKeptUntilItIsOverwritten) {
  for (Device* device : Devices()) {
    SCOPED_TRACE(device->info().id);
    SyncedMemory memory(kBytes, device, "a test");
    SetDevice(memory, 1);
    SetHost(memory, 2);
    memory.Discard();
    const uint64_t version = memory.version();
    EXPECT_EQ(HostBytes(memory), Bytes(2));
    const int64_t moves = Moves(device);
    device->Fill(memory.mutable_device_data(), 3, kBytes);
    EXPECT_EQ(Moves(device), moves);
    EXPECT_GT(memory.version(), version);
    EXPECT_EQ(HostBytes(memory), Bytes(3));
    // A read on the device brings it, and a view may write a part of it.
    SetHost(memory, 5);
    memory.Discard();
    EXPECT_EQ(DeviceBytes(memory), Bytes(5));
    device->Fill(memory.mutable_device_data(), 4, 1);
    EXPECT_EQ(HostBytes(memory), std::string(1, 4) + std::string(kBytes - 1, 5));
    SetHost(memory, 6);
    memory.Discard();
    static_cast<char*>(memory.View().get())[0] = 7;
    memory.mutable_device_data();
    EXPECT_EQ(HostBytes(memory), std::string(1, 7) + std::string(kBytes - 1, 6));
  }
}

// A layer may write only a part of its top.
TEST_F(OverwriteTest, APartThatIsWrittenAfterDiscardLeavesTheRest) {
  for (Device* device : Devices()) {
    SCOPED_TRACE(device->info().id);
    for (const bool on_device : {false, true}) {
      const auto write = [&](SyncedMemory& memory) {
        memory.Discard();
        if (on_device) {
          device->Fill(memory.mutable_device_data(), 9, 1);
        } else {
          static_cast<char*>(memory.mutable_host_data())[0] = 9;
        }
        return HostBytes(memory);
      };
      SyncedMemory fresh(kBytes, device, "a test"), host(kBytes, device, "a test"),
          written(kBytes, device, "a test");
      fresh.MoveInto(MakeArena(device), kBytes);
      EXPECT_EQ(write(fresh), std::string(1, 9) + std::string(kBytes - 1, 0));
      SetHost(host, 2);
      EXPECT_EQ(write(host), std::string(1, 9) + std::string(kBytes - 1, 2));
      SetDevice(written, 3);
      EXPECT_EQ(write(written), std::string(1, 9) + std::string(kBytes - 1, 3));
    }
  }
}

TEST_F(OverwriteTest, TheRestOfALargerMemoryIsKept) {
  for (Device* device : Devices()) {
    SCOPED_TRACE(device->info().id);
    for (const bool shared : {false, true}) {
      Blob<float> blob(device, {4});
      if (!shared) device->Fill(blob.mutable_device_data(), 0, blob.bytes());
      const auto memory = blob.data_memory();
      blob.Reshape({2});
      blob.SetData({1, 2});
      blob.Reshape({4});
      EXPECT_EQ(blob.data_memory(), memory);
      EXPECT_EQ(blob.DataAsDouble(), (std::vector<double>{1, 2, 0, 0}));
      blob.Reshape({2});
      device->Fill(blob.overwrite_device_data(), 0, blob.bytes());
      blob.Reshape({4});
      EXPECT_EQ(blob.DataAsDouble(), std::vector<double>(4, 0));
      blob.SetData({5, 6, 7, 8});
      blob.Reshape({2});
      device->Fill(blob.overwrite_device_data(), 0, blob.bytes());
      blob.Reshape({4});
      EXPECT_EQ(blob.DataAsDouble(), (std::vector<double>{0, 0, 7, 8}));
    }
  }
}

TEST_F(OverwriteTest, AViewShowsAdoptedBytesThatWereDiscarded) {
  for (Device* device : Devices()) {
    const auto bytes = std::make_shared<std::string>(Bytes(5));
    SyncedMemory memory(kBytes, device, "a test");
    memory.Adopt({bytes, bytes->data()});
    memory.Discard();
    const auto view = memory.View();
    EXPECT_EQ(std::string(static_cast<char*>(view.get()), kBytes), Bytes(5)) << device->info().id;
    EXPECT_NE(view.get(), bytes->data()) << device->info().id;
  }
}

TEST_F(OverwriteTest, DiscardedContentThatWasNotStoredReadsAsZeros) {
  for (Device* device : Devices()) {
    SyncedMemory memory(kBytes, device, "a test");
    for (const bool on_device : {false, true}) {
      SetHost(memory, 1);
      memory.SetSource(source_);
      memory.Discard();
      EXPECT_TRUE(memory.stored());
      EXPECT_EQ(on_device ? DeviceBytes(memory) : HostBytes(memory), Bytes(0)) << device->info().id;
      // A part that is written then is one of zeros.
      static_cast<char*>(memory.mutable_host_data())[0] = 4;
      EXPECT_EQ(DeviceBytes(memory), std::string(1, 4) + std::string(kBytes - 1, 0));
    }
  }
  EXPECT_EQ(source_->made, 0);
}

TEST_F(OverwriteTest, WatchersSeeTheOldContent) {
  struct Watcher : MemoryWatcher {
    explicit Watcher(SyncedMemory* memory) { Watch(memory); }
    void BeforeChange(SyncedMemory* memory, bool) override { seen.push_back(HostBytes(*memory)); }
    std::vector<std::string> seen;
  };
  SyncedMemory memory(kBytes, &null_, "a test");
  Watcher watcher(&memory);
  memory.OwnSource(source_);
  std::memset(memory.overwrite_host_data(kBytes), 9, kBytes);
  memory.overwrite_device_data(kBytes);
  ASSERT_GE(watcher.seen.size(), 2u);
  EXPECT_EQ(watcher.seen.end()[-2], Bytes(3));
  EXPECT_EQ(watcher.seen.back(), Bytes(9));
}

TEST_F(OverwriteTest, BlobsAreOverwritten) {
  for (Device* device : Devices()) {
    SCOPED_TRACE(device->info().id);
    Blob<float> blob(device, {16});
    const int64_t moves = Moves(device);
    blob.data_memory()->SetSource(source_);
    blob.SetData(std::vector<double>(16, 2));
    blob.data_memory()->SetSource(source_);
    std::fill_n(static_cast<float*>(blob.overwrite_host_data()), 16, 3.f);
    blob.data_memory()->SetSource(source_);
    device->Fill(blob.overwrite_device_data(), 0, blob.bytes());
    blob.diff_memory()->SetSource(source_);
    device->Fill(blob.overwrite_device_diff(), 0, blob.bytes());
    EXPECT_EQ(Moves(device), moves);
    EXPECT_EQ(source_->made, 0);
    EXPECT_EQ(blob.DataAsDouble(), std::vector<double>(16, 0));
    EXPECT_EQ(blob.DiffAsDouble(), std::vector<double>(16, 0));
  }
}

}  // namespace
}  // namespace caffe
