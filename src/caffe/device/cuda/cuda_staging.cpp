#include "caffe/device/cuda/cuda_staging.hpp"

#include <algorithm>
#include <cstring>

namespace caffe::cuda {

CudaStaging::~CudaStaging() {
  if (!context_->MakeCurrentIfCreated()) return;
  const Driver& driver = Driver::Get();
  for (const Piece& piece : pieces_) {
    driver.cuEventSynchronize.OrLog(piece.done);
    driver.cuEventDestroy.OrLog(piece.done);
  }
  for (CUevent event : spare_events_) driver.cuEventDestroy.OrLog(event);
  for (CUevent event : half_done_) {
    if (event) driver.cuEventDestroy.OrLog(event);
  }
  if (ring_) driver.cuMemFreeHost.OrLog(ring_);
  if (halves_) driver.cuMemFreeHost.OrLog(halves_);
}

int64_t CudaStaging::Reserve(int64_t bytes) {
  const Driver& driver = Driver::Get();
  int64_t begin = (position_ + 255) / 256 * 256;
  // A piece must not wrap around the end of the ring.
  if (begin % kRingBytes + bytes > kRingBytes) begin += kRingBytes - begin % kRingBytes;
  while (!pieces_.empty() && begin + bytes - pieces_.front().begin > kRingBytes) {
    driver.cuEventSynchronize(pieces_.front().done);
    spare_events_.push_back(pieces_.front().done);
    pieces_.pop_front();
  }
  return begin;
}

void CudaStaging::Upload(CUdeviceptr target, const void* source, int64_t bytes) {
  const Driver& driver = Driver::Get();
  const std::lock_guard lock(upload_mutex_);
  if (!ring_) {
    void* memory = nullptr;
    driver.cuMemHostAlloc(&memory, kRingBytes, 0);
    ring_ = static_cast<char*>(memory);
  }
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t size = std::min(kPieceBytes, bytes - at);
    const int64_t begin = Reserve(size);
    if (spare_events_.empty()) {
      CUevent event = nullptr;
      driver.cuEventCreate(&event, kEventDisableTiming);
      spare_events_.push_back(event);
    }
    char* staged = ring_ + begin % kRingBytes;
    std::memcpy(staged, static_cast<const char*>(source) + at, size);
    driver.cuMemcpyHtoDAsync(target + at, staged, size, stream_);
    const CUevent done = spare_events_.back();
    spare_events_.pop_back();
    pieces_.push_back({begin, done});
    position_ = begin + size;
    driver.cuEventRecord(done, stream_);
  }
}

void CudaStaging::Download(void* target, CUdeviceptr source, int64_t bytes) {
  const Driver& driver = Driver::Get();
  const std::lock_guard lock(download_mutex_);
  if (!halves_) {
    for (CUevent& event : half_done_) {
      if (!event) driver.cuEventCreate(&event, kEventDisableTiming);
    }
    void* memory = nullptr;
    driver.cuMemHostAlloc(&memory, 2 * kPieceBytes, 0);
    halves_ = static_cast<char*>(memory);
  }
  const int64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  for (int64_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      const int64_t size = std::min(kPieceBytes, bytes - i * kPieceBytes);
      driver.cuMemcpyDtoHAsync(halves_ + i % 2 * kPieceBytes, source + i * kPieceBytes, size,
                               stream_);
      driver.cuEventRecord(half_done_[i % 2], stream_);
    }
    if (i > 0) {
      const int64_t last = i - 1;
      const int64_t size = std::min(kPieceBytes, bytes - last * kPieceBytes);
      driver.cuEventSynchronize(half_done_[last % 2]);
      std::memcpy(static_cast<char*>(target) + last * kPieceBytes, halves_ + last % 2 * kPieceBytes,
                  size);
    }
  }
}

}  // namespace caffe::cuda
