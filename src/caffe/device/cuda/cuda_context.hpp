#pragma once

#include <atomic>
#include <mutex>

#include "caffe/core/process_mark.hpp"
#include "caffe/device/cuda/cuda_driver.hpp"

namespace caffe::cuda {

// The primary context of one GPU, which the CUDA runtime and its libraries share. Retained at the
// first use, because it costs memory and time. The device and every program, event and stream hold
// a reference, so that they may outlive the device.
class CudaContext {
 public:
  explicit CudaContext(CUdevice device) : device_(device) {}
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // Makes it the calling thread's current context and leaves it current, as cudaSetDevice does, for
  // libraries that are called next. Throws in a process that was forked after the device was found.
  void MakeCurrent();
  // For destructors: returns false if the context was never created or cannot be used any more.
  bool MakeCurrentIfCreated() noexcept;

 private:
  const CUdevice device_;
  const ProcessMark made_in_;
  std::mutex mutex_;
  std::atomic<CUcontext> context_{nullptr};
};

}  // namespace caffe::cuda
