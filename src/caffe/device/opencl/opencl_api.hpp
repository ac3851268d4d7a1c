#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <atomic>
#include <memory>
#include <string>
#include <type_traits>

namespace caffe::opencl {

// "CL_INVALID_VALUE", or "unknown error".
const char* ErrorName(cl_int code);

// Throws "<where>: <call> failed: CL_… (-n)" unless the call succeeded. `where` names the device,
// and the kernel or buffer if there is one.
void Check(cl_int code, const char* call, const std::string& where);
// The same for destructors: logs instead of throwing.
void CheckQuietly(cl_int code, const char* call, const std::string& where) noexcept;

// The text of an info query of a platform or device, without trailing zeros and blanks; empty if
// the query fails.
std::string PlatformText(cl_platform_id platform, cl_platform_info what);
std::string DeviceText(cl_device_id device, cl_device_info what);

// A value of an info query; `fallback` if the query fails.
template <class T> T DeviceValue(cl_device_id device, cl_device_info what, T fallback) {
  T value{};
  const cl_int code = clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return code == CL_SUCCESS ? value : fallback;
}

// Set when the process begins to end. A driver's own destructors may have run by then.
inline std::atomic<bool> process_is_ending{false};

// True if nothing may be released or queried any more: the process is ending, or it was forked
// after the driver was loaded and lacks the driver's threads. Call it once before the driver is
// loaded.
bool DriverIsGone() noexcept;

struct Release {
  template <class T> void operator()(T handle) const noexcept {
    if (!DriverIsGone()) Call(handle);
  }

 private:
  static void Call(cl_context handle) noexcept { clReleaseContext(handle); }
  static void Call(cl_command_queue handle) noexcept { clReleaseCommandQueue(handle); }
  static void Call(cl_program handle) noexcept { clReleaseProgram(handle); }
  static void Call(cl_kernel handle) noexcept { clReleaseKernel(handle); }
  static void Call(cl_event handle) noexcept { clReleaseEvent(handle); }
  static void Call(cl_mem handle) noexcept { clReleaseMemObject(handle); }
};

// Owns one reference to an OpenCL object.
template <class T> using Handle = std::unique_ptr<std::remove_pointer_t<T>, Release>;

}  // namespace caffe::opencl
