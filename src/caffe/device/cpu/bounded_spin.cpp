#include "caffe/device/cpu/bounded_spin.hpp"

#include <dlfcn.h>
#include <link.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

// GCC's libgomp reads GOMP_SPINCOUNT once, in a constructor of its own. A library that links
// libgomp is initialised after it, and in Python or a user's program another library may have
// loaded it much earlier, so setting the variable comes too late. (A library that libgomp does not
// depend on can be initialised earlier if it is the last of the needed ones, but not before a
// libgomp that is already loaded; re-executing the process is not an option for a library.) libgomp
// has no function for it either. So this file changes the number where libgomp stores it: a 64-bit
// variable in its data that holds the default, 300000, next to the 100 of its shorter loop. libgomp
// reads it whenever it waits. The number is replaced only if exactly one such pair is found. If
// OpenMP's variables are set, the default is not found.
namespace caffe {
namespace {

constexpr uint64_t kDefaultRounds = 300000, kShortRounds = 100;
// The two variables are adjacent, or another variable lies between them.
constexpr int64_t kReach = 4;
// On a quiet machine the long loop bridges the gaps between parallel regions; sleeping in them
// costs ResNet-20 15 %. Beside a busy process the short loop makes a pass a third to a half faster.
constexpr auto kLongSpin = std::chrono::microseconds(1000);
constexpr auto kShortSpin = std::chrono::microseconds(20);

// A thread that shares its core is stopped at the end of each time slice. On two cores of a virtual
// machine ResNet-20 was stopped 11 to 19 times per second of processor time when alone, and 6,000
// times beside one busy process with the short loop. The short loop starts after a short
// observation and ends after a long one, because a quiet machine also has a few stops in a row.
constexpr double kBusyStops = 75, kQuietStops = 25;
// From here on cores are shared for long. With a few stops in a row, as quiet machines have, too, small
// work still pays for a second thread: LeNet with one image takes 0.05 ms, and 0.08 ms in one thread.
constexpr double kSharedStops = 500;
constexpr double kShortLook = 0.05, kLongLook = 0.5;  // seconds of processor time
constexpr auto kInterval = std::chrono::milliseconds(10);

struct Spin {
  std::mutex mutex;
  std::atomic<uint64_t*> rounds{nullptr};  // libgomp's variable
  uint64_t long_rounds = 0, short_rounds = 0;
  bool busy = false;
  std::atomic<bool> shared{false};
  int64_t stops = 0;  // at the beginning of an observation
  double seconds = 0;
  std::atomic<int64_t> next_look{0};
};

Spin& State() {
  static auto* const state = new Spin;
  return *state;
}

struct Data {
  const void* base;
  std::vector<uint64_t*> found;
};

int Search(dl_phdr_info* library, size_t, void* argument) {
  auto* data = static_cast<Data*>(argument);
  if (reinterpret_cast<const void*>(library->dlpi_addr) != data->base) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || !(part.p_flags & PF_W)) continue;
    constexpr uintptr_t kWord = sizeof(uint64_t);
    const uintptr_t begin = (library->dlpi_addr + part.p_vaddr + kWord - 1) / kWord * kWord;
    const uintptr_t end = (library->dlpi_addr + part.p_vaddr + part.p_memsz) / kWord * kWord;
    auto* const words = reinterpret_cast<uint64_t*>(begin);
    const int64_t count = end > begin ? static_cast<int64_t>((end - begin) / kWord) : 0;
    for (int64_t at = 0; at < count; ++at) {
      if (words[at] != kDefaultRounds) continue;
      const auto* first = words + std::max<int64_t>(0, at - kReach);
      const auto* last = words + std::min(count, at + kReach + 1);
      if (std::find(first, last, kShortRounds) != last) data->found.push_back(words + at);
    }
  }
  return 1;
}

// The number of rounds of libgomp's loop in a span of time.
int64_t RoundsIn(std::chrono::nanoseconds span) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSample = 500;
  auto shortest = std::chrono::nanoseconds::max();
  std::atomic<int> value{0};
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto start = Clock::now();
    for (int i = 0; i < kSample; ++i) {
      if (value.load(std::memory_order_relaxed) != 0) break;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    shortest = std::min<std::chrono::nanoseconds>(shortest, Clock::now() - start);
  }
  return std::clamp<int64_t>(kSample * span.count() / std::max<int64_t>(shortest.count(), 1), 100,
                             kDefaultRounds);
}

}  // namespace

int64_t BoundSpinning() {
  for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(variable)) return 0;
  }
  Dl_info runtime;
  if (!dladdr(reinterpret_cast<const void*>(&omp_get_max_threads), &runtime)) return 0;
  Data data{runtime.dli_fbase, {}};
  dl_iterate_phdr(&Search, &data);
  if (data.found.size() != 1) {
    log::Debug(Concat("keeping the waiting loop of the OpenMP runtime ", runtime.dli_fname));
    return 0;
  }
  Spin& spin = State();
  const std::lock_guard lock(spin.mutex);
  spin.long_rounds = RoundsIn(kLongSpin);
  spin.short_rounds = RoundsIn(kShortSpin);
  spin.rounds = data.found[0];
  std::atomic_ref<uint64_t>(*spin.rounds).store(spin.long_rounds, std::memory_order_relaxed);
  return static_cast<int64_t>(spin.long_rounds);
}

bool AdaptSpinning(int64_t stops, double seconds) {
  Spin& spin = State();
  // A launch does not wait for one of another thread.
  const std::unique_lock lock(spin.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const double passed = seconds - spin.seconds;
  if (passed >= 0 && passed < (spin.busy ? kLongLook : kShortLook)) return spin.busy;
  const double rate = static_cast<double>(stops - spin.stops) / passed;
  const bool busy = spin.busy ? rate > kQuietStops : rate > kBusyStops;
  if (busy != spin.busy && spin.rounds.load()) {
    std::atomic_ref<uint64_t>(*spin.rounds.load())
        .store(busy ? spin.short_rounds : spin.long_rounds, std::memory_order_relaxed);
  }
  spin.busy = busy;
  spin.shared.store(rate > kSharedStops, std::memory_order_relaxed);
  spin.stops = stops;
  spin.seconds = seconds;
  return busy;
}

bool CoresAreShared() { return State().shared.load(std::memory_order_relaxed); }

void AdaptSpinning() {
  Spin& spin = State();
  if (!spin.rounds.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t count = std::chrono::nanoseconds(now).count();
  if (count < spin.next_look.load(std::memory_order_relaxed)) return;
  spin.next_look.store(count + std::chrono::nanoseconds(kInterval).count(),
                       std::memory_order_relaxed);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  AdaptSpinning(usage.ru_nivcsw, seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

}  // namespace caffe
