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
  // GCC's runtime takes 3 ms and more by itself.
  EXPECT_LT(SecondsOfWaiting(), 1e-3);
  EXPECT_EQ(BoundSpinning(), 0) << "it was done before";
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
