// How long an operation takes, for the choice between libraries.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "caffe/library/tuning_table.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Runs of `first` milliseconds once and of `later` milliseconds from then on.
struct Runs {
  explicit Runs(Device* device) : device(device) {}
  double Measure(int first, int later, double best) {
    count = 0;
    return MeasureMilliseconds(
        device,
        [&] {
          device->Synchronize();
          std::this_thread::sleep_for(std::chrono::milliseconds(count++ == 0 ? first : later));
        },
        best);
  }
  Device* device;
  int count = 0;
};

TEST(TuningTableTest, TheRunThatCompilesDoesNotCount) {
  for (Device* device : test::AllDevices()) {
    Runs runs(device);
    // Sleeps last at least as long as requested; a machine with other work makes them longer.
    EXPECT_LT(runs.Measure(400, 0, kInfinity), 400) << device->info().id;
    EXPECT_LT(runs.Measure(400, 0, 1000), 400) << device->info().id;
    EXPECT_GE(runs.Measure(0, 20, kInfinity), 20) << device->info().id;
  }
}

TEST(TuningTableTest, WhatIsMuchSlowerRunsTwice) {
  for (Device* device : test::AllDevices()) {
    Runs runs(device);
    runs.Measure(0, 20, 1);
    EXPECT_EQ(runs.count, 2) << device->info().id;
    runs.Measure(0, 101, kInfinity);
    EXPECT_EQ(runs.count, 2) << device->info().id << ": more than 100 ms";
    runs.Measure(0, 20, 1000);
    EXPECT_GT(runs.count, 2) << device->info().id;
  }
}

}  // namespace
}  // namespace caffe
