#include "caffe/device/cuda/cuda_context.hpp"

#include "caffe/core/error.hpp"

namespace caffe::cuda {

CudaContext::~CudaContext() {
  if (!MakeCurrentIfCreated()) return;
  const Driver& driver = Driver::Get();
  if (default_) driver.cuStreamDestroy.OrLog(default_);
  driver.cuDevicePrimaryCtxRelease.OrLog(device_);
}

void CudaContext::MakeCurrent() {
  if (made_in_.inherited()) [[unlikely]] {
    made_in_.Check(Concat("cuda:", device_));
  }
  const Driver& driver = Driver::Get();
  if (const CUcontext context = context_.load(std::memory_order_acquire)) {
    driver.cuCtxSetCurrent(context);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (const CUcontext context = context_.load(std::memory_order_acquire)) {
    driver.cuCtxSetCurrent(context);
    return;
  }
  CUcontext context = nullptr;
  driver.cuDevicePrimaryCtxRetain(&context, device_);
  try {
    driver.cuCtxSetCurrent(context);
    driver.cuStreamCreate(&default_, kStreamNonBlocking);
  } catch (...) {
    driver.cuDevicePrimaryCtxRelease.OrLog(device_);
    throw;
  }
  current_ = default_;
  context_.store(context, std::memory_order_release);
}

bool CudaContext::MakeCurrentIfCreated() noexcept {
  const CUcontext context = context_.load(std::memory_order_acquire);
  if (!context || made_in_.inherited()) return false;
  const Driver* driver = Driver::Find(nullptr);
  return driver && driver->cuCtxSetCurrent.Try(context) == kSuccess;
}

}  // namespace caffe::cuda
