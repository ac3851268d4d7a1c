#include "caffe/data/prefetcher.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "caffe/core/error.hpp"

namespace caffe {

// State shared by the two threads.
struct Prefetcher::Ring {
  Fill fill;
  std::vector<DataBatch> batches;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t filled = 0, taken = 0;
  bool stop = false;
  std::exception_ptr error;
  std::thread thread;
};

Prefetcher::Prefetcher(int depth, Fill fill) : ring_(std::make_unique<Ring>()) {
  CAFFE_CHECK(depth > 0, "prefetch must be at least 1, it is ", depth);
  ring_->fill = std::move(fill);
  ring_->batches.resize(depth);
  ring_->thread = std::thread(&Prefetcher::Run, ring_.get());
}

Prefetcher::~Prefetcher() {
  if (made_in_.inherited()) {
    // A forked child does not have the thread, which may have held the mutex: leak the ring.
    static_cast<void>(ring_.release());
    return;
  }
  {
    const std::lock_guard lock(ring_->mutex);
    ring_->stop = true;
  }
  ring_->changed.notify_all();
  ring_->thread.join();
}

void Prefetcher::Run(Ring* ring) {
  const auto depth = static_cast<int64_t>(ring->batches.size());
  std::unique_lock lock(ring->mutex);
  while (true) {
    ring->changed.wait(lock, [&] { return ring->stop || ring->filled - ring->taken < depth; });
    if (ring->stop) return;
    DataBatch* batch = &ring->batches[ring->filled % depth];
    lock.unlock();
    std::exception_ptr error;
    try {
      ring->fill(batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    ring->error = error;
    if (!error) ++ring->filled;
    ring->changed.notify_all();
    if (error) return;
  }
}

const DataBatch& Prefetcher::Front() {
  CAFFE_CHECK(!made_in_.inherited(),
              "the net's read-ahead thread was not copied by fork: "
              "make the net in the child, or start the child with "
              "multiprocessing.get_context('spawn')");
  std::unique_lock lock(ring_->mutex);
  ring_->changed.wait(lock, [&] { return ring_->filled > ring_->taken || ring_->error; });
  if (ring_->filled == ring_->taken) std::rethrow_exception(ring_->error);
  return ring_->batches[ring_->taken % static_cast<int64_t>(ring_->batches.size())];
}

void Prefetcher::Pop() {
  {
    const std::lock_guard lock(ring_->mutex);
    CAFFE_CHECK(ring_->filled > ring_->taken, "Pop without a batch from Front");
    ++ring_->taken;
  }
  ring_->changed.notify_all();
}

}  // namespace caffe
