#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "caffe/core/process_mark.hpp"
#include "caffe/data/item_source.hpp"

namespace caffe {

// A thread that fills batches ahead, in a ring of `depth`. Batches are returned in the order in
// which they were filled. If `fill` throws, Front() rethrows the error after the batches before it,
// and in all later calls. A forked process does not have the thread: Front() throws there.
class Prefetcher {
 public:
  // Called in the thread; the batch still has its previous content.
  using Fill = std::function<void(DataBatch*)>;

  Prefetcher(int depth, Fill fill);
  // Waits until the current batch is filled.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The oldest batch; waits until it is filled. Valid until Pop.
  const DataBatch& Front();
  // Releases the batch of Front for reuse.
  void Pop();

 private:
  struct Ring;
  static void Run(Ring* ring);

  std::unique_ptr<Ring> ring_;
  const ProcessMark made_in_;
};

}  // namespace caffe
