#pragma once

#include <cstdint>
#include <functional>

namespace caffe {

// How many threads decode and transform: as many as compute (OMP_NUM_THREADS), asked for by the
// thread that makes a layer.
int DataThreads();

// Calls work(0) … work(count - 1), each once, on up to `threads` threads of their own, so that
// decoding never waits for the pool that computes. Of what the calls throw, the error of the
// smallest number comes out, whatever the number of threads is.
void RunInParallel(int threads, int64_t count, const std::function<void(int64_t)>& work);

}  // namespace caffe
