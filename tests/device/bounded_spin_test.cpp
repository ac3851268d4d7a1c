#include "caffe/device/cpu/bounded_spin.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

double ProcessSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Processor time of a thread that waits after a parallel region, on average. Does not depend on what
// else the machine does.
double SecondsOfWaiting() {
  constexpr int kRegions = 40;
  const int waiting = omp_get_max_threads() - 1;
  const double start = ProcessSeconds();
  for (int i = 0; i < kRegions; ++i) {
#pragma omp parallel
    { std::atomic_signal_fence(std::memory_order_seq_cst); }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return (ProcessSeconds() - start) / (kRegions * waiting);
}

TEST(BoundedSpinTest, ThreadsSleepSoon) {
  if (omp_get_max_threads() == 1) GTEST_SKIP() << "there is one thread";
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) {
    GTEST_SKIP() << "the environment says how threads wait";
  }
  Runtime::Get();
  SecondsOfWaiting();  // makes the threads
  // A millisecond for the waiting thread, and as much for the one that waits for it to come. GCC's runtime
  // takes 3 ms and more for each by itself.
  EXPECT_LT(SecondsOfWaiting(), 3e-3);
  EXPECT_EQ(BoundSpinning(), 0) << "it was done before";
}

// While the system stops threads often the loop is short; that it does so less then changes nothing at
// once. Processor time counts, so that a process that slept learns nothing from it.
TEST(BoundedSpinTest, TheLoopIsShortWhileCoresAreTakenAway) {
  Runtime::Get();
  int64_t stops = 1 << 20;
  double seconds = 1e6;
  const auto after = [&](double passed, double rate) {
    seconds += passed;
    stops += static_cast<int64_t>(passed * rate);
    return AdaptSpinning(stops, seconds);
  };
  AdaptSpinning(stops, seconds);
  after(1, 0);
  EXPECT_FALSE(after(1, 0));
  EXPECT_FALSE(after(0.01, 1000)) << "too short a look";
  const bool waits = omp_get_max_threads() > 1 && !std::getenv("OMP_WAIT_POLICY") &&
                     !std::getenv("GOMP_SPINCOUNT");
  const double longer = waits ? SecondsOfWaiting() : 0;
  EXPECT_EQ(SerialFactor(), 1);
  EXPECT_TRUE(after(0.05, 1000));
  EXPECT_GT(SerialFactor(), 1) << "waking a thread takes longer than small work";
  if (waits) {
    EXPECT_LT(SecondsOfWaiting(), longer / 2);
  }
  EXPECT_TRUE(after(0.1, 0)) << "too short a look";
  EXPECT_TRUE(after(0.5, 300));
  EXPECT_EQ(SerialFactor(), 1) << "quiet machines have a few stops in a row, too";
  EXPECT_TRUE(after(0.5, 30));
  EXPECT_FALSE(after(0.6, 3));
  EXPECT_EQ(SerialFactor(), 1);
  EXPECT_FALSE(after(1, 30));
  after(1, 0);
}

TEST(BoundedSpinTest, VariablesOfOpenMpAreLeftToTheUser) {
  for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(variable)) continue;
    setenv(variable, "1", 1);
    EXPECT_EQ(BoundSpinning(), 0) << variable;
    unsetenv(variable);
  }
}

}  // namespace
}  // namespace caffe
