#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "caffe/device/cuda/cuda_context.hpp"

namespace caffe::cuda {

// Page-locked memory between the host's memory and the GPU's, for one stream. Uploads use a ring
// and return as soon as the source is copied into it. Downloads use two halves in turn, so that the
// copy out of one overlaps the transfer into the other. The memory is allocated at the first use.
class CudaStaging {
 public:
  CudaStaging(std::shared_ptr<CudaContext> context, CUstream stream)
      : context_(std::move(context)), stream_(stream) {}
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  // The context must be current.
  void Upload(CUdeviceptr target, const void* source, int64_t bytes);
  void Download(void* target, CUdeviceptr source, int64_t bytes);

  static constexpr int64_t kPieceBytes = 2 << 20;
  static constexpr int64_t kRingBytes = 8 * kPieceBytes;

 private:
  // A part of the ring that a transfer reads until `done`. Positions only grow; modulo kRingBytes
  // they are offsets in the ring.
  struct Piece {
    int64_t begin;
    CUevent done;
  };
  // The offset for the next `bytes`; waits until transfers that still read it are finished.
  int64_t Reserve(int64_t bytes);

  std::shared_ptr<CudaContext> context_;
  const CUstream stream_;
  std::mutex upload_mutex_, download_mutex_;
  char* ring_ = nullptr;
  int64_t position_ = 0;
  std::deque<Piece> pieces_;  // oldest first
  std::vector<CUevent> spare_events_;
  char* halves_ = nullptr;
  CUevent half_done_[2] = {nullptr, nullptr};
};

}  // namespace caffe::cuda
