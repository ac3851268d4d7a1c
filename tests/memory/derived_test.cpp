// Data computed from blobs, on several threads and in forked children.
#include "caffe/memory/derived.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "caffe/device/null_device.hpp"
#include "support/in_child.hpp"

namespace caffe {
namespace {

// Two nets with half copies of one float weight: the first conversion uploads it, the others find
// it on the device.
TEST(DerivedTest, ThreadsBuildOneAfterAnother) {
  constexpr int kThreads = 4, kRounds = 20;
  NullDevice device;
  Blob<float> shared(&device, {1000});
  for (int round = 0; round < kRounds; ++round) {
    shared.SetData(std::vector<double>(1000, round));
    const int64_t uploads = device.counters().uploads;
    std::atomic<int> built{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        DerivedBy derived({&shared}, [&] {
          shared.device_data();
          ++built;
        });
        EXPECT_TRUE(derived.Refresh());
        EXPECT_FALSE(derived.Refresh());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(built, kThreads);
    EXPECT_EQ(device.counters().uploads, uploads + 1);
  }
}

// The thread that builds is not in the child.
TEST(DerivedTest, AChildBuildsThoughAThreadOfTheParentDid) {
  std::mutex mutex;
  std::condition_variable changed;
  bool begun = false, end = false;
  std::thread busy([&] {
    DerivedBy slow({}, [&] {
      std::unique_lock lock(mutex);
      begun = true;
      changed.notify_all();
      changed.wait(lock, [&] { return end; });
    });
    slow.Refresh();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun; });
  }
  const int status = InChild([] {
    int built = 0;
    DerivedBy derived({}, [&] { ++built; });
    derived.Refresh();
    return built;
  });
  {
    const std::lock_guard lock(mutex);
    end = true;
  }
  changed.notify_all();
  busy.join();
  EXPECT_EQ(status, 1);
}

}  // namespace
}  // namespace caffe
