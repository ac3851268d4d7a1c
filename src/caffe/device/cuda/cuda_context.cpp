#include "caffe/device/cuda/cuda_context.hpp"

#include "caffe/core/error.hpp"

namespace caffe::cuda {

CudaContext::~CudaContext() {
  if (!MakeCurrentIfCreated()) return;
  const Driver& driver = Driver::Get();
  driver.cuDevicePrimaryCtxRelease.OrLog(device_);
}

void CudaContext::MakeCurrent() {
  if (made_in_.inherited()) [[unlikely]] {
    made_in_.Check(Concat("cuda:", device_));
  }
  const Driver& driver = Driver::Get();
  CUcontext context = context_.load(std::memory_order_acquire);
  if (!context) {
    const std::lock_guard lock(mutex_);
    context = context_.load(std::memory_order_acquire);
    if (!context) {
      driver.cuDevicePrimaryCtxRetain(&context, device_);
      context_.store(context, std::memory_order_release);
    }
  }
  // cuCtxGetCurrent is cheaper than cuCtxSetCurrent. A stored value would not do, because other
  // libraries of the process set the context, too.
  CUcontext current = nullptr;
  driver.cuCtxGetCurrent(&current);
  if (current != context) driver.cuCtxSetCurrent(context);
}

bool CudaContext::MakeCurrentIfCreated() noexcept {
  const CUcontext context = context_.load(std::memory_order_acquire);
  if (!context || made_in_.inherited()) return false;
  const Driver* driver = Driver::Find(nullptr);
  return driver && driver->cuCtxSetCurrent.Try(context) == kSuccess;
}

}  // namespace caffe::cuda
