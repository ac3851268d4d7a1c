#include "caffe/data/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace caffe {

int DataThreads() { return std::max(1, omp_get_max_threads()); }

void RunInParallel(int threads, int64_t count, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int64_t failed = count;
  const auto run = [&] {
    // Indices are taken in order: when one fails, every smaller one has been started.
    for (int64_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
        next = count;
      }
    }
  };
  std::vector<std::jthread> helpers;
  const int64_t wanted = std::min<int64_t>(threads, count) - 1;
  try {
    for (int64_t i = 0; i < wanted; ++i) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // The system has no more threads: continue with those that were started.
  }
  run();
  helpers.clear();  // joins
  if (error) std::rethrow_exception(error);
}

}  // namespace caffe
