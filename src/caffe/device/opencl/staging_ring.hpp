#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "caffe/device/opencl/opencl_api.hpp"

namespace caffe::opencl {

// Pinned host memory for the uploads of one queue: the source may be reused at once while the copy
// is still queued. The memory is a ring: a piece is reused when its copy has finished. Thread-safe.
class StagingRing {
 public:
  StagingRing(cl_context context, cl_command_queue queue, std::string where);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Enqueues the copy of `bytes` from `source`. Waits only if the ring is full.
  void Upload(cl_mem target, int64_t offset, const char* source, int64_t bytes);

 private:
  struct Piece {
    uint64_t begin;  // position in the endless sequence of the ring
    Handle<cl_event> copied;
  };

  static constexpr uint64_t kCapacity = 16 << 20;
  static constexpr uint64_t kLargestPiece = kCapacity / 4;  // host copy and transfer overlap
  static constexpr size_t kMostPieces = 256;

  uint64_t Take(uint64_t bytes);

  const std::string where_;
  Handle<cl_command_queue> queue_;
  Handle<cl_mem> buffer_;
  char* memory_ = nullptr;

  std::mutex mutex_;
  std::deque<Piece> pieces_;  // oldest first
  uint64_t end_ = 0;
};

}  // namespace caffe::opencl
