#pragma once

#include <cstdint>
#include <functional>

namespace caffe {

// The number of threads that decode and transform: that of the calling thread's OpenMP
// (OMP_NUM_THREADS).
int DataThreads();

// Calls work(0) … work(count - 1), each once, on up to `threads` threads of its own, so that
// decoding never waits for OpenMP's pool. If calls throw, the error of the smallest index is
// rethrown, whatever the number of threads is.
void RunInParallel(int threads, int64_t count, const std::function<void(int64_t)>& work);

}  // namespace caffe
