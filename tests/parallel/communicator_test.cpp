#include "caffe/parallel/communicator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "caffe/device/runtime.hpp"
#include "caffe/memory/device_buffer.hpp"
#include "caffe/parallel/ranks.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::vector<std::string> Names(int ranks) {
  std::vector<std::string> names;
  for (int r = 0; r < ranks; ++r) names.push_back(Concat("rank ", r, " of ", ranks));
  return names;
}

// Calls `work` for each rank in a thread of its own; returns their errors.
std::vector<std::string> InThreads(int ranks, const std::function<void(Communicator*)>& work) {
  auto communicators = MakeThreadCommunicators(Names(ranks));
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        work(communicators[r].get());
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// An array of the device with these values.
class Array {
 public:
  Array(Device* device, const std::vector<float>& values)
      : buffer_(device, static_cast<int64_t>(values.size() * sizeof(float)), "test") {
    device->Upload(buffer_.pointer(), values.data(), buffer_.bytes());
  }
  DevicePtr pointer() const { return buffer_.pointer(); }
  std::vector<float> values() const {
    std::vector<float> values(static_cast<size_t>(buffer_.bytes()) / sizeof(float));
    buffer_.device()->Download(values.data(), buffer_.pointer(), buffer_.bytes());
    return values;
  }

 private:
  DeviceBuffer buffer_;
};

// Numbers whose sum depends on the order.
float Value(int rank, int64_t i) {
  return static_cast<float>(i % 7 + 1) * (rank % 2 ? 1e-3f : 1e4f) / static_cast<float>(rank + 3);
}

std::vector<float> Values(int rank, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(Value(rank, i));
  return values;
}

std::vector<float> Sums(int ranks, int64_t count) {
  std::vector<float> sums = Values(0, count);
  for (int r = 1; r < ranks; ++r) {
    for (int64_t i = 0; i < count; ++i) sums[i] += Value(r, i);
  }
  return sums;
}

TEST(CommunicatorTest, TextsAreThoseOfTheRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    const auto errors = InThreads(ranks, [&](Communicator* own) {
      EXPECT_EQ(own->size(), ranks);
      const std::string text(static_cast<size_t>(own->rank() * 3), 'x');
      const std::vector<std::string> all = own->AllGather(text);
      ASSERT_EQ(all.size(), static_cast<size_t>(ranks));
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(all[r], std::string(3 * r, 'x'));
      EXPECT_EQ(own->Broadcast(Concat("from ", own->rank())), "from 0");
      const std::vector<double> sums = SumOverRanks(own, {1.0, own->rank() * 0.5});
      EXPECT_EQ(sums, (std::vector<double>{1.0 * ranks, 0.25 * ranks * (ranks - 1)}));
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
}

TEST(CommunicatorTest, SumsAreInTheOrderOfTheRanks) {
  for (Device* device : TestDevices()) {
    for (const int ranks : {1, 2, 3}) {
      for (const int64_t count : {int64_t{1}, int64_t{5}, int64_t{1000}}) {
        const std::vector<float> expected = Sums(ranks, count);
        const auto errors = InThreads(ranks, [&](Communicator* own) {
          const Array array(device, Values(own->rank(), count));
          own->AllReduceSum(device, array.pointer(), count, kFloat);
          own->Finish();
          EXPECT_EQ(array.values(), expected) << device->info().id;
        });
        for (const std::string& error : errors) EXPECT_EQ(error, "");
      }
    }
  }
}

// More elements than are sent at once.
TEST(CommunicatorTest, LargeArraysAreSummedInPieces) {
  constexpr int64_t kCount = (int64_t{1} << 22) + 3;
  const std::vector<float> expected = Sums(2, kCount);
  const auto errors = InThreads(2, [&](Communicator* own) {
    Device* const cpu = Runtime::Get().cpu();
    const Array array(cpu, Values(own->rank(), kCount));
    own->AllReduceSum(cpu, array.pointer(), kCount, kFloat);
    own->Finish();
    EXPECT_TRUE(array.values() == expected);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(CommunicatorTest, TheTwoHalvesOfASum) {
  constexpr int64_t kShare = 10;
  for (Device* device : TestDevices()) {
    for (const int ranks : {2, 3}) {
      const int64_t count = kShare * ranks;
      const std::vector<float> expected = Sums(ranks, count);
      const auto errors = InThreads(ranks, [&](Communicator* own) {
        const Array array(device, Values(own->rank(), count));
        own->ReduceScatterSum(device, array.pointer(), count, kFloat);
        own->Finish();
        const std::vector<float> sums = array.values();
        const auto begin = static_cast<size_t>(own->rank() * kShare);
        for (size_t i = begin; i < begin + kShare; ++i) EXPECT_EQ(sums[i], expected[i]);
        own->AllGather(device, array.pointer(), count, kFloat);
        own->Finish();
        EXPECT_EQ(array.values(), expected) << device->info().id;
      });
      for (const std::string& error : errors) EXPECT_EQ(error, "");
    }
  }
}

TEST(CommunicatorTest, SharesOfUnequalSizeAreAnError) {
  Device* const cpu = Runtime::Get().cpu();
  const auto errors = InThreads(2, [&](Communicator* own) {
    const Array array(cpu, Values(0, 3));
    own->ReduceScatterSum(cpu, array.pointer(), 3, kFloat);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "3 elements are not shares of 2 ranks");
}

// Sums of narrow types are rounded once: 2048 + 1 + 1 is 2050 in half, and 2048 + 1 is 2048.
TEST(CommunicatorTest, NarrowTypesAreSummedInFloat) {
  Device* const cpu = Runtime::Get().cpu();
  const auto errors = InThreads(3, [&](Communicator* own) {
    const float value = own->rank() == 0 ? 2048 : 1;
    uint16_t half = 0;
    ConvertElements(kFloat, &value, kHalf, &half, 1);
    own->AllReduceSum(cpu, {&half}, 1, kHalf);
    own->Finish();
    float sum = 0;
    ConvertElements(kHalf, &half, kFloat, &sum, 1);
    EXPECT_EQ(sum, 2050);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(CommunicatorTest, AFailureEndsTheOthersAndNamesTheRank) {
  Device* const cpu = Runtime::Get().cpu();
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = InThreads(3, [&](Communicator* own) {
    const Array array(cpu, Values(0, 10));
    if (own->rank() == 1) return own->Abort("out of paper");
    own->AllReduceSum(cpu, array.pointer(), 10, kFloat);
    own->Finish();
  });
  EXPECT_EQ(errors[1], "");
  for (const int rank : {0, 2}) EXPECT_EQ(errors[rank], "rank 1 of 3 failed: out of paper");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(RunRanksTest, EachRankHasItsDeviceAndItsError) {
  Device* const cpu = Runtime::Get().cpu();
  std::atomic<int> sum{0};
  RunRanks({cpu, cpu, cpu}, [&](Communicator* own, Device* device) {
    EXPECT_EQ(device, Runtime::Get().default_device());
    sum += own->rank();
  });
  EXPECT_EQ(sum, 3);
  const std::string error = ErrorOf([&] {
    RunRanks({cpu, cpu}, [&](Communicator* own, Device*) {
      if (own->rank() == 1) CAFFE_THROW("no more disks");
      own->AllGather("");
    });
  });
  EXPECT_EQ(error, "rank 1 of 2 (cpu): no more disks");
}

}  // namespace
}  // namespace caffe
