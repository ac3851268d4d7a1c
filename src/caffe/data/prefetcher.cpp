#include "caffe/data/prefetcher.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

Prefetcher::Prefetcher(int depth, Fill fill) : fill_(std::move(fill)) {
  CAFFE_CHECK(depth > 0, "prefetch must be at least 1, it is ", depth);
  ring_.resize(depth);
  thread_ = std::thread([this] { Run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::Run() {
  const auto depth = static_cast<int64_t>(ring_.size());
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || filled_ - taken_ < depth; });
    if (stop_) return;
    Batch* batch = &ring_[filled_ % depth];
    lock.unlock();
    std::exception_ptr error;
    try {
      fill_(batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ++filled_;
    changed_.notify_all();
    if (error) return;
  }
}

const Prefetcher::Batch& Prefetcher::Front() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filled_ > taken_ || error_; });
  if (filled_ == taken_) std::rethrow_exception(error_);
  return ring_[taken_ % static_cast<int64_t>(ring_.size())];
}

void Prefetcher::Pop() {
  {
    const std::lock_guard lock(mutex_);
    CAFFE_CHECK(filled_ > taken_, "a batch is given back that was not taken");
    ++taken_;
  }
  changed_.notify_all();
}

}  // namespace caffe
