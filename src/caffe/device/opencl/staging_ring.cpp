#include "caffe/device/opencl/staging_ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace caffe::opencl {

StagingRing::StagingRing(cl_context context, cl_command_queue queue, std::string where)
    : where_(std::move(where)) {
  Check(clRetainCommandQueue(queue), "clRetainCommandQueue", where_);
  queue_.reset(queue);
  cl_int code = CL_SUCCESS;
  buffer_.reset(clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, kCapacity,
                               nullptr, &code));
  Check(code, "clCreateBuffer", where_ + ", staging memory");
  memory_ = static_cast<char*>(clEnqueueMapBuffer(queue, buffer_.get(), CL_TRUE,
                                                  CL_MAP_READ | CL_MAP_WRITE, 0, kCapacity, 0,
                                                  nullptr, nullptr, &code));
  Check(code, "clEnqueueMapBuffer", where_ + ", staging memory");
}

StagingRing::~StagingRing() {
  if (DriverIsGone()) return;
  for (const Piece& piece : pieces_) {
    cl_event event = piece.copied.get();
    CheckQuietly(clWaitForEvents(1, &event), "clWaitForEvents", where_);
  }
  if (memory_ != nullptr) {
    CheckQuietly(clEnqueueUnmapMemObject(queue_.get(), buffer_.get(), memory_, 0, nullptr, nullptr),
                 "clEnqueueUnmapMemObject", where_);
    CheckQuietly(clFinish(queue_.get()), "clFinish", where_);
  }
}

uint64_t StagingRing::Take(uint64_t bytes) {
  uint64_t begin = (end_ + 63) & ~uint64_t{63};
  if (begin % kCapacity + bytes > kCapacity) begin = (begin / kCapacity + 1) * kCapacity;
  const uint64_t end = begin + bytes;
  while (!pieces_.empty() &&
         (pieces_.size() >= kMostPieces || pieces_.front().begin + kCapacity < end)) {
    cl_event event = pieces_.front().copied.get();
    const cl_int code = clWaitForEvents(1, &event);
    pieces_.pop_front();
    Check(code, "clWaitForEvents", where_ + ", an earlier upload");
  }
  end_ = end;
  return begin;
}

void StagingRing::Upload(cl_mem target, int64_t offset, const char* source, int64_t bytes) {
  std::lock_guard lock(mutex_);
  while (bytes > 0) {
    const uint64_t size = std::min<uint64_t>(bytes, kLargestPiece);
    const uint64_t begin = Take(size);
    char* staged = memory_ + begin % kCapacity;
    std::memcpy(staged, source, size);
    cl_event event = nullptr;
    Check(clEnqueueWriteBuffer(queue_.get(), target, CL_FALSE, offset, size, staged, 0, nullptr,
                               &event),
          "clEnqueueWriteBuffer", where_);
    pieces_.push_back({begin, Handle<cl_event>(event)});
    source += size;
    offset += static_cast<int64_t>(size);
    bytes -= static_cast<int64_t>(size);
  }
}

}  // namespace caffe::opencl
