#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "caffe/core/process_mark.hpp"
#include "caffe/core/shape.hpp"

namespace caffe {

// A thread that fills batches ahead, in a ring of `depth`. Batches come out in the order in which
// they were filled. What `fill` throws comes out of Front() once the batches before it are used up,
// then and ever after. In a process that was forked later there is no such thread: Front() throws.
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
  struct Ring;
  static void Run(Ring* ring);

  std::unique_ptr<Ring> ring_;
  const ProcessMark made_in_;
};

}  // namespace caffe
