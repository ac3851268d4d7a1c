#pragma once

#include <cstddef>
#include <string>

#include "caffe/device/dynamic_library.hpp"

// The part of the CUDA driver API that is used, declared here, so that building needs no headers of
// the toolkit and linking needs no driver. libcuda is opened at run time; if it is missing,
// FindCudaDevices reports that. So this folder is built everywhere and has no absent.cpp.
namespace caffe::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;
// The ports that an edge of a graph waits for: zeros stand for the whole node.
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
  bool operator==(const CUgraphEdgeData&) const = default;
};
struct CUuuid {
  unsigned char bytes[16];
};

inline constexpr CUresult kSuccess = 0, kOutOfMemory = 2, kDeinitialized = 4, kNoDevice = 100;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
// CUdevice_attribute.
inline constexpr int kMaxThreadsPerBlock = 1, kMaxSharedMemoryPerBlock = 8,
                     kMultiprocessorCount = 16, kIntegrated = 18, kComputeMode = 20,
                     kCapabilityMajor = 75, kCapabilityMinor = 76;
inline constexpr int kComputeModeProhibited = 2;
// CUfunction_attribute.
inline constexpr int kMaxDynamicSharedBytes = 8;
// CUstreamCaptureMode: calls of other threads are not checked.
inline constexpr int kCaptureThreadLocal = 1;
// CUstreamUpdateCaptureDependencies_flags: the nodes replace the stream's.
inline constexpr unsigned kSetCaptureDependencies = 1;

[[noreturn]] void ThrowDriverError(const char* call, CUresult result);
// "CUDA_ERROR_INVALID_VALUE: invalid argument".
std::string DriverErrorText(CUresult result);

// One function of the driver. Calling it checks the result.
template <class... Arguments> class DriverCall {
 public:
  DriverCall(const DynamicLibrary& library, const char* name)
      : name_(name),
        function_(reinterpret_cast<CUresult (*)(Arguments...)>(library.Symbol(name))) {}
  bool present() const { return function_ != nullptr; }
  const char* name() const { return name_; }
  // Throws, naming the device, the call and the driver's reason.
  void operator()(Arguments... arguments) const {
    const CUresult result = function_(arguments...);
    if (result != kSuccess) [[unlikely]] {
      ThrowDriverError(name_, result);
    }
  }
  CUresult Try(Arguments... arguments) const { return function_(arguments...); }
  // For destructors: a failure is logged.
  void OrLog(Arguments... arguments) const noexcept {
    const CUresult result = function_(arguments...);
    if (result != kSuccess) LogFailure(name_, result);
  }

 private:
  static void LogFailure(const char* call, CUresult result) noexcept;
  const char* name_;
  CUresult (*function_)(Arguments...);
};

void LogDriverError(const char* call, CUresult result) noexcept;
template <class... Arguments>
void DriverCall<Arguments...>::LogFailure(const char* call, CUresult result) noexcept {
  LogDriverError(call, result);
}

// All functions. Their suffixes are those of the binary interface, which cuda.h has used since CUDA
// 11.
struct Driver {
  explicit Driver(const DynamicLibrary& l);
  // Returns null and the reason if there is no driver. The driver is opened once.
  static const Driver* Find(std::string* why);
  // The same for callers that already have a device.
  static const Driver& Get();
  // The first function that the driver lacks, or null.
  const char* Missing() const;
  // Whether it has the functions of graphs, which are optional, and those of their branches.
  bool HasGraphs() const;
  bool HasBranches() const;

  DriverCall<unsigned> cuInit;
  DriverCall<int*> cuDriverGetVersion;
  DriverCall<CUresult, const char**> cuGetErrorName, cuGetErrorString;
  DriverCall<int*> cuDeviceGetCount;
  DriverCall<CUdevice*, int> cuDeviceGet;
  DriverCall<char*, int, CUdevice> cuDeviceGetName;
  DriverCall<CUuuid*, CUdevice> cuDeviceGetUuid;
  DriverCall<size_t*, CUdevice> cuDeviceTotalMem;
  DriverCall<int*, int, CUdevice> cuDeviceGetAttribute;
  DriverCall<CUcontext*, CUdevice> cuDevicePrimaryCtxRetain;
  DriverCall<CUdevice> cuDevicePrimaryCtxRelease;
  DriverCall<CUcontext> cuCtxSetCurrent;
  DriverCall<CUcontext*> cuCtxGetCurrent;
  DriverCall<CUdevice*> cuCtxGetDevice;
  DriverCall<CUdeviceptr*, size_t> cuMemAlloc;
  DriverCall<CUdeviceptr> cuMemFree;
  DriverCall<size_t*, size_t*> cuMemGetInfo;
  DriverCall<void**, size_t, unsigned> cuMemHostAlloc;
  DriverCall<void*> cuMemFreeHost;
  DriverCall<CUdeviceptr, const void*, size_t, CUstream> cuMemcpyHtoDAsync;
  DriverCall<void*, CUdeviceptr, size_t, CUstream> cuMemcpyDtoHAsync;
  DriverCall<CUdeviceptr, CUdeviceptr, size_t, CUstream> cuMemcpyDtoDAsync;
  DriverCall<CUdeviceptr, unsigned char, size_t, CUstream> cuMemsetD8Async;
  DriverCall<CUstream*, unsigned> cuStreamCreate;
  DriverCall<CUstream> cuStreamSynchronize, cuStreamDestroy;
  DriverCall<CUevent*, unsigned> cuEventCreate;
  DriverCall<CUevent, CUstream> cuEventRecord;
  DriverCall<CUstream, CUevent, unsigned> cuStreamWaitEvent;
  DriverCall<CUevent> cuEventSynchronize, cuEventDestroy;
  DriverCall<float*, CUevent, CUevent> cuEventElapsedTime;
  DriverCall<CUmodule*, const void*> cuModuleLoadData;
  DriverCall<CUmodule> cuModuleUnload;
  DriverCall<CUfunction*, CUmodule, const char*> cuModuleGetFunction;
  DriverCall<CUfunction, int, int> cuFuncSetAttribute;
  DriverCall<CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
             CUstream, void**, void**>
      cuLaunchKernel;
  DriverCall<CUstream, int> cuStreamBeginCapture;
  DriverCall<CUstream, CUgraph*> cuStreamEndCapture;
  DriverCall<CUgraphExec*, CUgraph, unsigned long long> cuGraphInstantiate;
  DriverCall<CUgraphExec, CUstream> cuGraphLaunch;
  DriverCall<CUgraphExec> cuGraphExecDestroy;
  DriverCall<CUgraph> cuGraphDestroy;
  // Since CUDA 12.3.
  DriverCall<CUstream, int*, unsigned long long*, CUgraph*, const CUgraphNode**,
             const CUgraphEdgeData**, size_t*>
      cuStreamGetCaptureInfo;
  DriverCall<CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned>
      cuStreamUpdateCaptureDependencies;
};

// 12040 -> "12.4".
std::string CudaVersionText(int version);

}  // namespace caffe::cuda
