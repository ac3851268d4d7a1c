#pragma once

#include <omp.h>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/fallback.hpp"

namespace caffe::onednn {

// Primitives are made for a number of threads. If the caller's is another one, it is changed
// for the call; inside a parallel region, where there is only one thread, that is impossible.
class Threads {
 public:
  Threads(int wanted, const ConvDescriptor& d) {
    WatchCores();
    if (omp_in_parallel()) {
      if (wanted == 1) return;
      throw LibraryRefusal(Concat(d.name(), " was made for ", wanted,
                                  " threads and is called in a parallel region"));
    }
    const int now = omp_get_max_threads();
    if (now == wanted) return;
    restore_ = now;
    omp_set_num_threads(wanted);
  }
  ~Threads() {
    if (restore_ > 0) omp_set_num_threads(restore_);
  }
  Threads(const Threads&) = delete;

 private:
  int restore_ = 0;
};

// Primitives that are made meanwhile are for one thread; they can be called anywhere.
class OneThread {
 public:
  OneThread() : restore_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(restore_); }
  OneThread(const OneThread&) = delete;

 private:
  int restore_;
};

}  // namespace caffe::onednn
