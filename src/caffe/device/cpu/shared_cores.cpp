#include "caffe/device/cpu/shared_cores.hpp"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <mutex>

namespace caffe {
namespace {

// A thread that shares its core is stopped at the end of each time slice. On two cores of a virtual
// machine ResNet-20 was stopped 11 to 19 times per second of processor time when alone, and 6,000
// times beside one busy process. With a few stops in a row, as quiet machines have, too, small work
// still pays for a second thread: LeNet with one image takes 0.05 ms, and 0.08 ms in one thread.
// Cores count as shared after a short observation and as free after a long one.
constexpr double kSharedStops = 500;                  // for each second of processor time
constexpr double kShortLook = 0.05, kLongLook = 0.5;  // seconds of processor time
constexpr auto kInterval = std::chrono::milliseconds(10);

struct Watch {
  std::mutex mutex;
  std::atomic<bool> shared{false};
  int64_t stops = 0;  // at the beginning of an observation
  double seconds = 0;
  std::atomic<int64_t> next_look{0};
};

Watch& State() {
  static auto* const state = new Watch;
  return *state;
}

}  // namespace

void WatchCores(int64_t stops, double seconds) {
  Watch& watch = State();
  // A launch does not wait for one of another thread.
  const std::unique_lock lock(watch.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const double passed = seconds - watch.seconds;
  if (passed >= 0 && passed < (watch.shared ? kLongLook : kShortLook)) return;
  watch.shared = static_cast<double>(stops - watch.stops) > kSharedStops * passed;
  watch.stops = stops;
  watch.seconds = seconds;
}

bool CoresAreShared() { return State().shared.load(std::memory_order_relaxed); }

void WatchCores() {
  Watch& watch = State();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t count = std::chrono::nanoseconds(now).count();
  if (count < watch.next_look.load(std::memory_order_relaxed)) return;
  watch.next_look.store(count + std::chrono::nanoseconds(kInterval).count(),
                        std::memory_order_relaxed);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  WatchCores(usage.ru_nivcsw, seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

}  // namespace caffe
