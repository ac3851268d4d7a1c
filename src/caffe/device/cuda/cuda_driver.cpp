#include "caffe/device/cuda/cuda_driver.hpp"

#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe::cuda {
namespace {

// Used if cuInit fails, before Driver::Find has returned.
const Driver* loaded = nullptr;

std::string PlainName(const char* call) {
  const std::string name = call;
  const size_t suffix = name.rfind("_v");
  return suffix == std::string::npos ? name : name.substr(0, suffix);
}

// "cuda:1: " for the device whose context is current.
std::string CurrentDevice() {
  CUdevice device = 0;
  if (!loaded || loaded->cuCtxGetDevice.Try(&device) != kSuccess) return "";
  return Concat("cuda:", device, ": ");
}

}  // namespace

std::string DriverErrorText(CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (loaded) {
    loaded->cuGetErrorName.Try(result, &name);
    loaded->cuGetErrorString.Try(result, &text);
  }
  if (!name) return Concat("error ", result);
  return Concat(name, ": ", text ? text : "no description");
}

void ThrowDriverError(const char* call, CUresult result) {
  CAFFE_THROW(CurrentDevice(), PlainName(call), " failed: ", DriverErrorText(result));
}

void LogDriverError(const char* call, CUresult result) noexcept {
  // When the process ends, the driver has already released everything.
  if (result == kDeinitialized) return;
  try {
    log::Error(Concat(CurrentDevice(), PlainName(call), " failed: ", DriverErrorText(result)));
  } catch (...) {
  }
}

Driver::Driver(const DynamicLibrary& l)
    : cuInit(l, "cuInit"),
      cuDriverGetVersion(l, "cuDriverGetVersion"),
      cuGetErrorName(l, "cuGetErrorName"),
      cuGetErrorString(l, "cuGetErrorString"),
      cuDeviceGetCount(l, "cuDeviceGetCount"),
      cuDeviceGet(l, "cuDeviceGet"),
      cuDeviceGetName(l, "cuDeviceGetName"),
      cuDeviceGetUuid(l, "cuDeviceGetUuid"),
      cuDeviceTotalMem(l, "cuDeviceTotalMem_v2"),
      cuDeviceGetAttribute(l, "cuDeviceGetAttribute"),
      cuDevicePrimaryCtxRetain(l, "cuDevicePrimaryCtxRetain"),
      cuDevicePrimaryCtxRelease(l, "cuDevicePrimaryCtxRelease_v2"),
      cuCtxSetCurrent(l, "cuCtxSetCurrent"),
      cuCtxGetCurrent(l, "cuCtxGetCurrent"),
      cuCtxGetDevice(l, "cuCtxGetDevice"),
      cuMemAlloc(l, "cuMemAlloc_v2"),
      cuMemFree(l, "cuMemFree_v2"),
      cuMemGetInfo(l, "cuMemGetInfo_v2"),
      cuMemHostAlloc(l, "cuMemHostAlloc"),
      cuMemFreeHost(l, "cuMemFreeHost"),
      cuMemcpyHtoDAsync(l, "cuMemcpyHtoDAsync_v2"),
      cuMemcpyDtoHAsync(l, "cuMemcpyDtoHAsync_v2"),
      cuMemcpyDtoDAsync(l, "cuMemcpyDtoDAsync_v2"),
      cuMemsetD8Async(l, "cuMemsetD8Async"),
      cuStreamCreate(l, "cuStreamCreate"),
      cuStreamSynchronize(l, "cuStreamSynchronize"),
      cuStreamDestroy(l, "cuStreamDestroy_v2"),
      cuEventCreate(l, "cuEventCreate"),
      cuEventRecord(l, "cuEventRecord"),
      cuStreamWaitEvent(l, "cuStreamWaitEvent"),
      cuEventSynchronize(l, "cuEventSynchronize"),
      cuEventDestroy(l, "cuEventDestroy_v2"),
      cuEventElapsedTime(l, "cuEventElapsedTime"),
      cuModuleLoadData(l, "cuModuleLoadData"),
      cuModuleUnload(l, "cuModuleUnload"),
      cuModuleGetFunction(l, "cuModuleGetFunction"),
      cuFuncSetAttribute(l, "cuFuncSetAttribute"),
      cuLaunchKernel(l, "cuLaunchKernel"),
      cuStreamBeginCapture(l, "cuStreamBeginCapture_v2"),
      cuStreamEndCapture(l, "cuStreamEndCapture"),
      cuGraphInstantiate(l, "cuGraphInstantiateWithFlags"),
      cuGraphLaunch(l, "cuGraphLaunch"),
      cuGraphExecDestroy(l, "cuGraphExecDestroy"),
      cuGraphDestroy(l, "cuGraphDestroy"),
      cuStreamGetCaptureInfo(l, "cuStreamGetCaptureInfo_v3"),
      cuStreamUpdateCaptureDependencies(l, "cuStreamUpdateCaptureDependencies_v2") {}

bool Driver::HasGraphs() const {
  return cuStreamBeginCapture.present() && cuStreamEndCapture.present() &&
         cuGraphInstantiate.present() && cuGraphLaunch.present() && cuGraphExecDestroy.present() &&
         cuGraphDestroy.present();
}

bool Driver::HasBranches() const {
  return cuStreamGetCaptureInfo.present() && cuStreamUpdateCaptureDependencies.present();
}

const char* Driver::Missing() const {
  const char* missing = nullptr;
  auto check = [&](const auto&... calls) {
    ((missing = missing || calls.present() ? missing : calls.name()), ...);
  };
  check(cuInit, cuDriverGetVersion, cuGetErrorName, cuGetErrorString, cuDeviceGetCount, cuDeviceGet,
        cuDeviceGetName, cuDeviceGetUuid, cuDeviceTotalMem, cuDeviceGetAttribute,
        cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease, cuCtxSetCurrent, cuCtxGetCurrent,
        cuCtxGetDevice, cuMemAlloc, cuMemFree, cuMemGetInfo, cuMemHostAlloc, cuMemFreeHost,
        cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync, cuMemsetD8Async, cuStreamCreate,
        cuStreamSynchronize, cuStreamDestroy, cuEventCreate, cuEventRecord, cuStreamWaitEvent,
        cuEventSynchronize, cuEventDestroy, cuEventElapsedTime, cuModuleLoadData, cuModuleUnload,
        cuModuleGetFunction, cuFuncSetAttribute, cuLaunchKernel);
  return missing;
}

const Driver* Driver::Find(std::string* why) {
  struct Result {
    const Driver* driver = nullptr;
    std::string why;
  };
  // Never destroyed: programs and events may be destroyed after static objects are.
  static const Result* const result = [] {
    auto* found = new Result;
    std::string complaint;
    // The folders after the loader's own search are those of WSL and of container images.
    const auto library = DynamicLibrary::Open(
        {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"},
        &complaint);
    if (!library) {
      found->why = "no CUDA driver: " + complaint;
      return found;
    }
    auto* driver = new Driver(*library);
    if (const char* missing = driver->Missing()) {
      found->why = Concat("the CUDA driver is too old: it has no ", missing);
      return found;
    }
    loaded = driver;
    const CUresult started = driver->cuInit.Try(0);
    if (started == kNoDevice) {
      found->why = "the CUDA driver finds no device";
    } else if (started != kSuccess) {
      found->why = "the CUDA driver cannot be initialised: " + DriverErrorText(started);
    } else {
      found->driver = driver;
    }
    return found;
  }();
  if (why) *why = result->why;
  return result->driver;
}

const Driver& Driver::Get() {
  std::string why;
  const Driver* driver = Find(&why);
  CAFFE_CHECK(driver, why);
  return *driver;
}

std::string CudaVersionText(int version) {
  return Concat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace caffe::cuda
