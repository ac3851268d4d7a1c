// Memories that are slices of a buffer, and memories whose content is not stored.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/memory/synced_memory.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr int64_t kBytes = 64;

char* HostOf(SyncedMemory& memory) { return static_cast<char*>(memory.mutable_host_data()); }
char HostByte(SyncedMemory& memory, int64_t at) {
  return static_cast<const char*>(memory.host_data())[at];
}
char DeviceByte(SyncedMemory& memory, int64_t at) { return memory.device_data().address()[at]; }

// On the CPU, where both copies are usually one, and on a device with memory of its own, whose
// addresses the host can read for a test.
class MemorySliceTest : public testing::TestWithParam<bool> {
 protected:
  NullDevice null_;
  Device* device() { return GetParam() ? Runtime::Get().cpu() : &null_; }
  bool cpu() const { return GetParam(); }
  std::shared_ptr<DeviceBuffer> MakeArena(int64_t slices = 4) {
    auto arena = std::make_shared<DeviceBuffer>(device(), slices * kBytes, "arena");
    device()->Fill(arena->pointer(), 0x77, arena->bytes());
    return arena;
  }
  // The array in the arena.
  static char ArenaByte(const DeviceBuffer& arena, int64_t at) {
    return arena.pointer().address()[at];
  }
  int64_t bytes_moved() {
    const DeviceCounters counters = device()->counters();
    return counters.upload_bytes + counters.download_bytes;
  }
  SyncedMemory a_{kBytes, device(), "a"}, b_{kBytes, device(), "b"};
};

TEST_P(MemorySliceTest, TheContentMovesAlong) {
  const auto arena = MakeArena();
  HostOf(a_)[0] = 1;
  b_.mutable_device_data().address()[0] = 2;
  const uint64_t version = a_.version();
  a_.MoveInto(arena, 0);
  b_.MoveInto(arena, kBytes);
  EXPECT_EQ(a_.version(), version);
  EXPECT_EQ(a_.device_data(), arena->pointer());
  EXPECT_EQ(b_.device_data(), arena->pointer() + kBytes);
  EXPECT_EQ(ArenaByte(*arena, 0), 1);
  EXPECT_EQ(ArenaByte(*arena, kBytes), 2);
  EXPECT_EQ(HostByte(a_, 0), 1);
  EXPECT_EQ(HostByte(b_, 0), 2);
}

TEST_P(MemorySliceTest, MemoryThatWasNeverWrittenReadsAsZerosInAnArena) {
  const auto arena = MakeArena();
  a_.MoveInto(arena, kBytes);
  EXPECT_EQ(HostByte(a_, 3), 0);
  b_.MoveInto(arena, 2 * kBytes);
  EXPECT_EQ(DeviceByte(b_, 3), 0);
  EXPECT_EQ(ArenaByte(*arena, 0), 0x77);  // the neighbours keep theirs
  EXPECT_EQ(ArenaByte(*arena, 3 * kBytes), 0x77);
}

// Version, residency and host copy belong to the slice: one moves, the other does not.
TEST_P(MemorySliceTest, NeighboursAreNotTouched) {
  const auto arena = MakeArena();
  for (SyncedMemory* memory : {&a_, &b_}) memory->mutable_device_data();
  a_.MoveInto(arena, 0);
  b_.MoveInto(arena, kBytes);
  a_.host_data();
  b_.host_data();
  const uint64_t version = b_.version();
  device()->ResetCounters();
  for (int i = 0; i < 3; ++i) {
    HostOf(a_)[1] = static_cast<char>(i);
    EXPECT_EQ(DeviceByte(a_, 1), i);
    b_.device_data();
    b_.host_data();
  }
  EXPECT_EQ(bytes_moved(), cpu() ? 0 : 3 * kBytes);
  EXPECT_EQ(b_.version(), version);
}

TEST_P(MemorySliceTest, AViewOfASliceHoldsItsOwnBytesAndStaysLive) {
  std::weak_ptr<DeviceBuffer> arena;
  std::shared_ptr<void> view;
  {
    SyncedMemory memory(kBytes, device(), "memory");
    const auto made = MakeArena();
    arena = made;
    HostOf(memory)[0] = 1;
    memory.MoveInto(made, kBytes);
    view = memory.View();
    EXPECT_EQ(memory.buffer(), made);  // so that one launch still reaches all slices
    EXPECT_EQ(static_cast<char*>(view.get())[0], 1);
    static_cast<char*>(view.get())[0] = 2;
    EXPECT_TRUE(memory.has_view());
    memory.MarkHostWritten();
    device()->ResetCounters();
    EXPECT_EQ(memory.device_data(), made->pointer() + kBytes);
    EXPECT_EQ(ArenaByte(*made, kBytes), 2);
    // As an update does it.
    memory.mutable_device_data().address()[0] = 3;
    memory.host_data();
    EXPECT_EQ(static_cast<char*>(view.get())[0], 3);
    EXPECT_EQ(bytes_moved(), 2 * kBytes);
  }
  EXPECT_TRUE(arena.expired());
  EXPECT_EQ(static_cast<char*>(view.get())[0], 3);
}

TEST_P(MemorySliceTest, AViewFromBeforeTheMoveStaysLive) {
  const auto arena = MakeArena();
  const auto view = a_.View();
  static_cast<char*>(view.get())[5] = 50;
  a_.MarkHostWritten();
  a_.MoveInto(arena, kBytes);
  EXPECT_TRUE(a_.has_view());
  EXPECT_EQ(DeviceByte(a_, 5), 50);
  EXPECT_EQ(ArenaByte(*arena, kBytes + 5), 50);
  static_cast<char*>(view.get())[5] = 51;
  a_.MarkHostWritten();
  EXPECT_EQ(DeviceByte(a_, 5), 51);
  a_.mutable_device_data().address()[5] = 52;
  a_.host_data();
  EXPECT_EQ(static_cast<char*>(view.get())[5], 52);
  // And from one arena to the next.
  const auto other = MakeArena();
  a_.mutable_device_data().address()[5] = 53;
  a_.MoveInto(other, 0);
  EXPECT_EQ(ArenaByte(*other, 5), 53);
  a_.host_data();
  EXPECT_EQ(static_cast<char*>(view.get())[5], 53);
}

TEST_P(MemorySliceTest, ALaunchOverTheArenaIsSeen) {
  const auto arena = MakeArena();
  HostOf(a_)[0] = 1;
  a_.MoveInto(arena, 0);
  const uint64_t version = a_.version();
  const auto view = a_.View();
  device()->ResetCounters();
  device()->Fill(arena->pointer(), 9, arena->bytes());
  a_.MarkDeviceWritten();
  EXPECT_GT(a_.version(), version);
  EXPECT_EQ(device()->counters().uploads, 0);
  EXPECT_EQ(HostByte(a_, 0), 9);
  EXPECT_EQ(static_cast<char*>(view.get())[0], 9);
}

TEST_P(MemorySliceTest, LeavesTheArenaForAnotherDevice) {
  NullDevice other;
  std::weak_ptr<DeviceBuffer> arena;
  {
    const auto made = MakeArena();
    arena = made;
    a_.mutable_device_data().address()[7] = 70;
    b_.mutable_device_data().address()[7] = 71;
    a_.MoveInto(made, 0);
    b_.MoveInto(made, kBytes);
  }
  a_.SetDevice(&other);
  EXPECT_FALSE(arena.expired());  // b_ still lies in it
  EXPECT_EQ(DeviceByte(b_, 7), 71);
  b_.SetDevice(&other);
  EXPECT_TRUE(arena.expired());
  EXPECT_EQ(DeviceByte(a_, 7), 70);
  EXPECT_EQ(a_.offset(), 0);
  EXPECT_EQ(a_.buffer()->bytes(), kBytes);
  // An arena there, and back.
  const auto there = std::make_shared<DeviceBuffer>(&other, 2 * kBytes, "arena");
  a_.MoveInto(there, kBytes);
  a_.SetDevice(device());
  EXPECT_EQ(DeviceByte(a_, 7), 70);
  b_.SetDevice(device());
  EXPECT_EQ(HostByte(b_, 7), 71);
}

TEST_P(MemorySliceTest, AViewStaysLiveWhereverTheSliceMoves) {
  NullDevice other;
  a_.MoveInto(MakeArena(), kBytes);
  const auto view = a_.View();
  char* const bytes = static_cast<char*>(view.get());
  char next = 1;
  Device* const cpu = Runtime::Get().cpu();
  for (Device* to : {static_cast<Device*>(&other), cpu, device(), cpu, device()}) {
    a_.SetDevice(to);
    for (const bool arena : {false, true}) {
      if (arena) a_.MoveInto(std::make_shared<DeviceBuffer>(to, 2 * kBytes, "arena"), kBytes);
      ASSERT_TRUE(a_.has_view());
      bytes[3] = ++next;
      a_.MarkHostWritten();
      EXPECT_EQ(DeviceByte(a_, 3), next) << to->info().id << " " << arena;
      a_.mutable_device_data().address()[3] = ++next;
      a_.host_data();
      EXPECT_EQ(bytes[3], next) << to->info().id << " " << arena;
    }
  }
  a_.SetDevice(device());
}

TEST_P(MemorySliceTest, ErrorsNameTheValues) {
  NullDevice other;
  const auto arena = MakeArena(1);
  EXPECT_TRUE(Holds(ErrorOf([&] { a_.MoveInto(arena, 16); }),
                    "a: 64 bytes at offset 16 do not fit in arena of 64 bytes"));
  EXPECT_NE(ErrorOf([&] { a_.Borrow(arena, -1); }), "");
  const auto there = std::make_shared<DeviceBuffer>(&other, kBytes, "arena there");
  EXPECT_TRUE(Holds(ErrorOf([&] { a_.MoveInto(there, 0); }),
                    "a is on " + device()->info().id + " and cannot lie in arena there on null"));
}

TEST_P(MemorySliceTest, ABorrowedSliceIsWrittenWithoutCopies) {
  const auto arena = MakeArena();
  HostOf(a_)[0] = 1;
  const uint64_t version = a_.version();
  device()->ResetCounters();
  ASSERT_TRUE(a_.Borrow(arena, kBytes));
  EXPECT_TRUE(a_.borrowed());
  EXPECT_GT(a_.version(), version);  // what was derived from the content is stale
  // Neither the old content nor zeros are brought there first.
  EXPECT_EQ(a_.mutable_device_data(), arena->pointer() + kBytes);
  EXPECT_EQ(ArenaByte(*arena, kBytes), 0x77);
  arena->pointer().address()[kBytes] = 5;
  EXPECT_EQ(DeviceByte(a_, 0), 5);
  EXPECT_EQ(HostByte(a_, 0), 5);
  EXPECT_EQ(device()->counters().uploads, 0);
  EXPECT_EQ(device()->counters().copies, 0);
  // A memory that is read before anybody wrote it reads as zeros.
  ASSERT_TRUE(b_.Borrow(arena, 2 * kBytes));
  EXPECT_EQ(DeviceByte(b_, 1), 0);
  ASSERT_TRUE(b_.Borrow(arena, 3 * kBytes));
  EXPECT_EQ(HostByte(b_, 1), 0);
  // Written on the host, as by a data layer.
  ASSERT_TRUE(b_.Borrow(arena, 0));
  HostOf(b_)[2] = 6;
  EXPECT_EQ(DeviceByte(b_, 2), 6);
  EXPECT_EQ(b_.device_data(), arena->pointer());
}

TEST_P(MemorySliceTest, AViewTakesABorrowedSliceOutOfTheArena) {
  const auto arena = MakeArena();
  ASSERT_TRUE(a_.Borrow(arena, kBytes));
  a_.mutable_device_data().address()[4] = 40;
  auto view = a_.View();
  EXPECT_FALSE(a_.borrowed());
  EXPECT_NE(a_.buffer(), arena);
  device()->Fill(arena->pointer(), 0x11, arena->bytes());  // others use the arena
  EXPECT_EQ(static_cast<char*>(view.get())[4], 40);
  EXPECT_EQ(DeviceByte(a_, 4), 40);
  static_cast<char*>(view.get())[4] = 41;
  a_.MarkHostWritten();
  EXPECT_EQ(DeviceByte(a_, 4), 41);
  EXPECT_EQ(ArenaByte(*arena, kBytes + 4), 0x11);
  // It stays out while the view lives.
  EXPECT_FALSE(a_.Borrow(arena, kBytes));
  EXPECT_EQ(DeviceByte(a_, 4), 41);
  view.reset();
  EXPECT_TRUE(a_.Borrow(arena, kBytes));
  EXPECT_EQ(a_.mutable_device_data(), arena->pointer() + kBytes);
}

TEST_P(MemorySliceTest, AViewOfABorrowedSliceThatNobodyWroteShowsZeros) {
  ASSERT_TRUE(a_.Borrow(MakeArena(), kBytes));
  const auto view = a_.View();
  EXPECT_EQ(static_cast<char*>(view.get())[4], 0);
  EXPECT_EQ(DeviceByte(a_, 4), 0);
}

// Fills the memory with a number and counts how often.
struct NumberSource : SyncedMemory::Source {
  char number = 0;
  int made = 0;
  bool on_device = false, fails = false, does_nothing = false;
  void Make(SyncedMemory* memory) override {
    ++made;
    if (fails) CAFFE_THROW("the source failed");
    if (does_nothing) return;
    char* bytes = on_device ? memory->mutable_device_data().address() : HostOf(*memory);
    std::memset(bytes, number, memory->bytes());
  }
};

TEST_P(MemorySliceTest, EveryAccessHasTheSourceMakeTheContent) {
  for (const bool on_device : {false, true}) {
    const auto source = std::make_shared<NumberSource>();
    source->on_device = on_device;
    const auto expect_made = [&](const char* what, auto access) {
      const int before = source->made;
      ++source->number;
      const uint64_t version = a_.version();
      a_.SetSource(source);
      EXPECT_GT(a_.version(), version);
      EXPECT_EQ(source->made, before) << what;
      access();
      EXPECT_EQ(source->made, before + 1) << what;
      EXPECT_EQ(HostByte(a_, 1), source->number) << what;
      EXPECT_EQ(DeviceByte(a_, kBytes - 1), source->number) << what;
      EXPECT_EQ(source->made, before + 1) << what;
    };
    expect_made("host_data", [&] { a_.host_data(); });
    expect_made("device_data", [&] { a_.device_data(); });
    // A part of it may be written.
    expect_made("mutable_host_data", [&] { a_.mutable_host_data(); });
    expect_made("mutable_device_data", [&] { a_.mutable_device_data(); });
    expect_made("View", [&] { a_.View(); });
    expect_made("MarkHostWritten", [&] { a_.MarkHostWritten(); });
    expect_made("MoveInto", [&] { a_.MoveInto(MakeArena(), kBytes); });
  }
}

TEST_P(MemorySliceTest, ContentThatALaunchOverTheArenaWroteIsNotMade) {
  const auto source = std::make_shared<NumberSource>();
  a_.device_data();
  device()->Fill(a_.PrepareToWrite(), 8, kBytes);
  a_.SetSource(source);
  a_.MarkDeviceWritten();
  EXPECT_EQ(DeviceByte(a_, 0), 8);
  EXPECT_EQ(source->made, 0);
}

TEST_P(MemorySliceTest, WhatASourceMakesLiesOutsideTheArena) {
  const auto arena = MakeArena();
  const auto source = std::make_shared<NumberSource>();
  source->number = 12;
  ASSERT_TRUE(a_.Borrow(arena, kBytes));
  a_.mutable_device_data();
  a_.SetSource(source);
  EXPECT_FALSE(a_.borrowed());
  EXPECT_EQ(arena.use_count(), 1);
  EXPECT_EQ(DeviceByte(a_, 9), 12);
  EXPECT_EQ(ArenaByte(*arena, kBytes + 9), 0x77);
  const auto view = a_.View();
  EXPECT_EQ(static_cast<char*>(view.get())[9], 12);
  EXPECT_EQ(source->made, 1);
}

TEST_P(MemorySliceTest, ALiveViewShowsWhatTheSourceMakes) {
  const auto source = std::make_shared<NumberSource>();
  const auto view = a_.View();
  for (const bool on_device : {false, true}) {
    source->on_device = on_device;
    ++source->number;
    a_.SetSource(source);
    ASSERT_TRUE(a_.has_view());
    a_.host_data();
    EXPECT_EQ(static_cast<char*>(view.get())[9], source->number);
  }
}

TEST_P(MemorySliceTest, FreedContentIsMadeAgainUnderItsVersion) {
  const auto source = std::make_shared<NumberSource>();
  source->number = 14;
  a_.FreeUntilAccess(source);
  EXPECT_TRUE(a_.stored()) << "an empty memory has nothing to free";
  for (const bool on_device : {false, true}) {
    source->on_device = on_device;
    std::memset(HostOf(a_), 14, kBytes);
    a_.device_data();
    const uint64_t version = a_.version();
    const int64_t in_use = device()->bytes_in_use();
    a_.FreeUntilAccess(source);
    EXPECT_LT(device()->bytes_in_use(), in_use);
    EXPECT_FALSE(a_.stored());
    EXPECT_EQ(DeviceByte(a_, 9), 14);
    EXPECT_EQ(HostByte(a_, 9), 14);
    EXPECT_EQ(a_.version(), version);
    HostOf(a_)[0] = 1;
    EXPECT_GT(a_.version(), version);
  }
  EXPECT_EQ(source->made, 2);
  // Content that a step will write again has another version.
  const uint64_t version = a_.version();
  a_.SetSource(source);
  a_.device_data();
  EXPECT_GT(a_.version(), version);
}

TEST_P(MemorySliceTest, AnOwnSourceIsKeptUntilItsContentIsThere) {
  std::weak_ptr<NumberSource> source;
  const auto give = [&] {
    auto made = std::make_shared<NumberSource>();
    made->number = 17;
    source = made;
    a_.OwnSource(std::move(made));
    EXPECT_FALSE(a_.stored());
    EXPECT_FALSE(source.expired());
  };
  const uint64_t before = a_.version();
  give();
  const uint64_t version = a_.version();
  EXPECT_GT(version, before);
  EXPECT_EQ(HostByte(a_, 3), 17);
  EXPECT_EQ(DeviceByte(a_, kBytes - 1), 17);
  EXPECT_EQ(a_.version(), version);
  EXPECT_TRUE(source.expired());

  give();
  source.lock()->fails = true;
  EXPECT_THROW(a_.host_data(), Error);
  ASSERT_FALSE(source.expired());
  source.lock()->fails = false;
  EXPECT_EQ(HostByte(a_, 3), 17);

  give();
  a_.Discard();
  EXPECT_TRUE(source.expired());
  a_.mutable_device_data().address()[0] = 8;
  EXPECT_EQ(HostByte(a_, 0), 8);

  give();
  const auto other = std::make_shared<NumberSource>();
  other->number = 18;
  a_.SetSource(other);
  EXPECT_TRUE(source.expired());
  EXPECT_EQ(HostByte(a_, 0), 18);
}

TEST_P(MemorySliceTest, ViewsAndArenasAreNotFreed) {
  const auto source = std::make_shared<NumberSource>();
  HostOf(a_)[3] = 5;
  HostOf(b_)[3] = 6;
  const auto arena = MakeArena();
  b_.MoveInto(arena, 0);
  const auto view = a_.View();
  for (SyncedMemory* memory : {&a_, &b_}) {
    memory->device_data();
    memory->FreeUntilAccess(source);
    memory->FreeDeviceCopy();
    EXPECT_TRUE(memory->stored());
  }
  EXPECT_EQ(static_cast<char*>(view.get())[3], 5);
  EXPECT_EQ(ArenaByte(*arena, 3), 6);
  EXPECT_EQ(source->made, 0);
}

std::shared_ptr<const char> SomeBytes(char value) {
  auto bytes = std::make_shared<std::vector<char>>(kBytes, value);
  return {bytes, bytes->data()};
}

TEST_P(MemorySliceTest, AdoptedBytesAreNeverWritten) {
  const std::shared_ptr<const char> bytes = SomeBytes(5);
  using Write = std::function<void(SyncedMemory*)>;
  const std::vector<Write> writes = {
      [](SyncedMemory* m) { static_cast<char*>(m->mutable_host_data())[3] = 9; },
      [](SyncedMemory* m) { m->device()->Fill(m->mutable_device_data() + 3, 9, 1); },
      [](SyncedMemory* m) {
        m->device()->Fill(m->PrepareToWrite() + 3, 9, 1);
        m->MarkDeviceWritten();
      },
      [](SyncedMemory* m) { static_cast<char*>(m->View().get())[3] = 9; },
  };
  for (const Write& write : writes) {
    SyncedMemory memory(kBytes, device(), "a test");
    memory.mutable_host_data();
    const uint64_t before = memory.version();
    memory.Adopt(bytes);
    EXPECT_NE(memory.version(), before);
    EXPECT_TRUE(memory.adopted());
    EXPECT_EQ(memory.host_data(), bytes.get());
    if (device()->host_accessible()) EXPECT_EQ(memory.device_data().address(), bytes.get());
    EXPECT_EQ(DeviceByte(memory, 4), 5);
    const uint64_t version = memory.version();
    write(&memory);
    EXPECT_NE(memory.version(), version);
    EXPECT_EQ(HostByte(memory, 3), 9);
    EXPECT_EQ(DeviceByte(memory, 3), 9);
    EXPECT_EQ(HostByte(memory, 4), 5) << "the rest is kept";
    EXPECT_EQ(DeviceByte(memory, 4), 5);
    EXPECT_FALSE(memory.adopted());
    EXPECT_EQ(bytes.get()[3], 5);
  }
}

TEST_P(MemorySliceTest, AdoptedBytesAreCopiedIntoArenasAndViews) {
  const std::shared_ptr<const char> bytes = SomeBytes(6);
  const auto view = a_.View();
  a_.Adopt(bytes);
  EXPECT_FALSE(a_.adopted());
  EXPECT_EQ(static_cast<char*>(view.get())[2], 6);
  const auto arena = std::make_shared<DeviceBuffer>(device(), 4 * kBytes, "an arena");
  b_.Adopt(bytes);
  b_.MoveInto(arena, kBytes);
  device()->Fill(b_.mutable_device_data(), 7, kBytes);
  EXPECT_EQ(HostByte(b_, 2), 7);
  b_.Adopt(bytes);
  EXPECT_FALSE(b_.adopted()) << "it stays in the arena";
  EXPECT_EQ(DeviceByte(b_, 2), 6);
  EXPECT_EQ(bytes.get()[2], 6);
}

TEST_P(MemorySliceTest, AFormIsKeptUntilTheContentIsWritten) {
  const auto source = std::make_shared<NumberSource>();
  source->number = 14;
  std::memset(HostOf(a_), 1, kBytes);
  a_.SetForm(source);
  EXPECT_FALSE(a_.stored());
  const uint64_t version = a_.version();
  EXPECT_EQ(HostByte(a_, 9), 14);
  EXPECT_EQ(DeviceByte(a_, 9), 14);
  EXPECT_EQ(a_.version(), version);
  EXPECT_EQ(a_.form(), source);
  EXPECT_TRUE(a_.form_is_content());
  {
    const auto view = a_.View();  // may write
    EXPECT_EQ(a_.form(), source);
    EXPECT_FALSE(a_.form_is_content());
  }
  a_.SetForm(source);
  EXPECT_TRUE(a_.form_is_content());
  const SyncedMemory::State state = a_.Save();
  a_.mutable_device_data();
  EXPECT_EQ(a_.form(), nullptr);
  a_.Restore(state);
  EXPECT_EQ(a_.form(), source);
  EXPECT_TRUE(a_.form_is_content());
  a_.mutable_host_data();
  EXPECT_EQ(a_.form(), nullptr);
  a_.SetForm(source);
  a_.SetSource(source);
  EXPECT_EQ(a_.form(), nullptr);
}

TEST_P(MemorySliceTest, ADeviceCopyIsFreedIfTheHostHasTheContent) {
  a_.mutable_device_data().address()[7] = 3;
  const int64_t in_use = device()->bytes_in_use();
  a_.FreeDeviceCopy();
  EXPECT_EQ(device()->bytes_in_use(), in_use) << "the host may not have it";
  EXPECT_EQ(HostByte(a_, 7), 3);
  const uint64_t version = a_.version();
  a_.FreeDeviceCopy();
  EXPECT_EQ(device()->bytes_in_use() < in_use, !cpu());
  EXPECT_EQ(DeviceByte(a_, 7), 3);
  EXPECT_EQ(HostByte(a_, 7), 3);
  EXPECT_EQ(a_.version(), version);
}

TEST_P(MemorySliceTest, ContentThatIsNotStoredFollowsToAnotherDevice) {
  NullDevice other;
  const auto source = std::make_shared<NumberSource>();
  source->number = 30;
  const auto view = a_.View();
  a_.SetSource(source);
  a_.SetDevice(&other);
  EXPECT_EQ(source->made, 0);
  EXPECT_EQ(DeviceByte(a_, 2), 30);
  a_.host_data();
  EXPECT_EQ(static_cast<char*>(view.get())[2], 30);
  a_.SetDevice(device());
  EXPECT_EQ(DeviceByte(a_, 2), 30);
}

TEST_P(MemorySliceTest, ASourceThatIsGoneOrFailsIsAnError) {
  auto source = std::make_shared<NumberSource>();
  a_.SetSource(source);
  source->fails = true;
  EXPECT_TRUE(Holds(ErrorOf([&] { a_.host_data(); }), "the source failed"));
  source->fails = false;
  source->does_nothing = true;
  EXPECT_TRUE(Holds(ErrorOf([&] { a_.device_data(); }), "a: its source wrote nothing"));
  source->does_nothing = false;
  source->number = 4;
  EXPECT_EQ(HostByte(a_, 0), 4);  // an error is not remembered
  a_.SetSource(source);
  source.reset();
  EXPECT_TRUE(Holds(ErrorOf([&] { a_.host_data(); }), "a: its content was not kept"));
  a_.overwrite_device_data(kBytes);
  a_.host_data();
}

INSTANTIATE_TEST_SUITE_P(Devices, MemorySliceTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "cpu" : "null"; });

}  // namespace
}  // namespace caffe
