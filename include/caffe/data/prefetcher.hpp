#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

// A thread that fills batches ahead, in a ring of `depth`. Batches come out in the order in which
// they were filled. What `fill` throws comes out of Front() once the batches before it are used up,
// then and ever after.
class Prefetcher {
 public:
  struct Batch {
    std::vector<char> data;
    std::vector<float> labels;
    Shape shape;  // of data, where it may change from batch to batch
  };
  // Called in the thread; it gets the batch as it was left after its last use.
  using Fill = std::function<void(Batch*)>;

  Prefetcher(int depth, Fill fill);
  // Waits until the batch that is being filled is done.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The oldest batch; waits for it. Valid until Pop.
  const Batch& Front();
  // Gives the batch of Front back to be filled anew.
  void Pop();

 private:
  void Run();

  const Fill fill_;
  std::vector<Batch> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0, taken_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace caffe
