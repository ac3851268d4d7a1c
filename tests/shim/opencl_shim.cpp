// A library that shows OpenCL devices as other ones, for tests: LD_PRELOAD=libopencl_shim.so with
// CAFFE_SHIM="name=value,…". It changes what the driver says and refuses what such a device would
// refuse; all the rest goes to the driver.
//   type=gpu|accelerator   the type of every device; type=none: no platform has devices
//   group=N                the most work items of a group, of devices and of kernels
//   kernel_group=N         the same of kernels alone
//   kernel_group_of=NAME   … of this kernel alone
//   local=N                bytes of local memory
//   fp64=0 fp16=0          without double precision, or half arithmetic
//   denormals=0            without denormals in float
//   rounding=0             without correctly rounded division; strict=1: refuses its build option
//   dot=1                  with products of four bytes, see kernels/dialect/codes.h; dot=0: without
//   commands=0             without command buffers
//   memory=N               bytes of memory; buffers beyond it are refused
//   version=1.1            the version of devices and of their language
//   platform=NAME          the name of every platform; driver=VERSION: of every driver
//   replace=A>B            every program has the text B instead of A
//   log=empty              build logs are empty
//   refuse=NAME            a launch of the kernel fails with CL_OUT_OF_RESOURCES
//   fail=CALL:N            the N-th call of this function fails with CL_OUT_OF_RESOURCES
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

const std::map<std::string, std::string>& Settings() {
  static const auto* const all = [] {
    auto* map = new std::map<std::string, std::string>;
    const char* text = std::getenv("CAFFE_SHIM");
    std::istringstream parts(text ? text : "");
    for (std::string part; std::getline(parts, part, ',');) {
      const size_t equals = part.find('=');
      if (equals != std::string::npos) (*map)[part.substr(0, equals)] = part.substr(equals + 1);
    }
    return map;
  }();
  return *all;
}

std::string Setting(const char* name) {
  const auto found = Settings().find(name);
  return found == Settings().end() ? "" : found->second;
}

// A number, or `otherwise` if it is not set.
uint64_t Number(const char* name, uint64_t otherwise) {
  const std::string text = Setting(name);
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 0);
}

bool Off(const char* name) { return Setting(name) == "0"; }

template <class Function> Function Real(const char* name) {
  static std::mutex mutex;
  static auto* const found = new std::map<std::string, void*>;
  const std::lock_guard lock(mutex);
  void*& function = (*found)[name];
  if (!function) function = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function>(function);
}
#define REAL_OF(name) Real<decltype(&name)>(#name)

// Whether this call of `function` is the one that fails.
bool Fails(const char* function) {
  static const std::string setting = Setting("fail");
  static std::atomic<uint64_t> calls{0};
  const size_t colon = setting.find(':');
  if (colon == std::string::npos || setting.compare(0, colon, function) != 0) return false;
  return ++calls == std::strtoull(setting.c_str() + colon + 1, nullptr, 10);
}

cl_int Give(const void* data, size_t bytes, size_t size, void* value, size_t* size_ret) {
  if (size_ret) *size_ret = bytes;
  if (!value) return CL_SUCCESS;
  if (size < bytes) return CL_INVALID_VALUE;
  std::memcpy(value, data, bytes);
  return CL_SUCCESS;
}

cl_int GiveText(const std::string& text, size_t size, void* value, size_t* size_ret) {
  return Give(text.c_str(), text.size() + 1, size, value, size_ret);
}

std::string DeviceText(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (REAL_OF(clGetDeviceInfo)(device, what, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  REAL_OF(clGetDeviceInfo)(device, what, size, text.data(), nullptr);
  return text.c_str();
}

template <class T> T DeviceValue(cl_device_id device, cl_device_info what) {
  T value{};
  REAL_OF(clGetDeviceInfo)(device, what, sizeof value, &value, nullptr);
  return value;
}

std::string KernelName(cl_kernel kernel) {
  char name[256] = "";
  clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, nullptr);
  return name;
}

// The most items of a group of a kernel, as the device below it says if nothing is set.
size_t KernelGroup(cl_kernel kernel, size_t real) {
  real = std::min<size_t>(real, Number("group", real));
  const std::string only = Setting("kernel_group_of");
  if (!only.empty() && KernelName(kernel) != only) return real;
  return std::min<size_t>(real, Number("kernel_group", real));
}

std::atomic<uint64_t> bytes_in_use{0};

constexpr cl_device_info kFeatures = 0x106F;  // CL_DEVICE_OPENCL_C_FEATURES, OpenCL 3.0
// CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED_KHR
constexpr cl_device_info kAcceleratedDotProduct = 0x1075;

}  // namespace

extern "C" {

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void* value,
                         size_t* size_ret) {
  if (what == CL_PLATFORM_NAME && !Setting("platform").empty()) {
    return GiveText(Setting("platform"), size, value, size_ret);
  }
  return REAL_OF(clGetPlatformInfo)(platform, what, size, value, size_ret);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint entries,
                      cl_device_id* devices, cl_uint* count) {
  if (Setting("type") == "none") {
    if (count) *count = 0;
    return CL_DEVICE_NOT_FOUND;
  }
  return REAL_OF(clGetDeviceIDs)(platform, type, entries, devices, count);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void* value,
                       size_t* size_ret) {
  const auto give = [&](auto number) {
    return Give(&number, sizeof number, size, value, size_ret);
  };
  switch (what) {
    case CL_DEVICE_TYPE:
      if (Setting("type") == "gpu") return give(cl_device_type{CL_DEVICE_TYPE_GPU});
      if (Setting("type") == "accelerator") return give(cl_device_type{CL_DEVICE_TYPE_ACCELERATOR});
      break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: {
      const auto real = DeviceValue<size_t>(device, what);
      return give(std::min<size_t>(real, Number("group", real)));
    }
    case CL_DEVICE_LOCAL_MEM_SIZE:
      if (!Setting("local").empty()) return give(cl_ulong{Number("local", 0)});
      break;
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      if (!Setting("memory").empty()) return give(cl_ulong{Number("memory", 0)});
      break;
    case CL_DEVICE_SINGLE_FP_CONFIG: {
      auto bits = DeviceValue<cl_device_fp_config>(device, what);
      if (Off("denormals")) bits &= ~cl_device_fp_config{CL_FP_DENORM};
      if (Off("rounding")) bits &= ~cl_device_fp_config{CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT};
      return give(bits);
    }
    case CL_DEVICE_DOUBLE_FP_CONFIG:
      if (Off("fp64")) return give(cl_device_fp_config{0});
      break;
    case CL_DEVICE_EXTENSIONS: {
      std::istringstream words(DeviceText(device, what));
      std::string kept;
      for (std::string word; words >> word;) {
        if ((word == "cl_khr_fp64" && Off("fp64")) || (word == "cl_khr_fp16" && Off("fp16"))) {
          continue;
        }
        kept += word + " ";
      }
      return GiveText(kept, size, value, size_ret);
    }
    case kFeatures: {
      if (Off("dot")) return CL_INVALID_VALUE;
      if (Setting("dot").empty()) break;
      struct {
        cl_uint version = 3 << 22;
        char name[64] = "__opencl_c_integer_dot_product_input_4x8bit_packed";
      } const feature;
      return give(feature);
    }
    case kAcceleratedDotProduct:
      if (!Setting("dot").empty()) return give(std::array<cl_bool, 6>{1, 1, 1, 1, 1, 1});
      break;
    case CL_DEVICE_VERSION:
      if (!Setting("version").empty()) {
        return GiveText("OpenCL " + Setting("version") + " shim", size, value, size_ret);
      }
      break;
    case CL_DEVICE_OPENCL_C_VERSION:
      if (!Setting("version").empty()) {
        return GiveText("OpenCL C " + Setting("version") + " shim", size, value, size_ret);
      }
      break;
    case CL_DRIVER_VERSION:
      if (!Setting("driver").empty()) return GiveText(Setting("driver"), size, value, size_ret);
      break;
  }
  return REAL_OF(clGetDeviceInfo)(device, what, size, value, size_ret);
}

void* clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char* name) {
  if (Off("commands") && std::strcmp(name, "clCreateCommandBufferKHR") == 0) return nullptr;
  return REAL_OF(clGetExtensionFunctionAddressForPlatform)(platform, name);
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** strings,
                                     const size_t* lengths, cl_int* code) {
  std::string text;
  for (cl_uint i = 0; i < count; ++i) {
    text += lengths && lengths[i] ? std::string(strings[i], lengths[i]) : std::string(strings[i]);
  }
  const std::string replace = Setting("replace");
  if (const size_t arrow = replace.find('>'); arrow != std::string::npos) {
    const std::string old = replace.substr(0, arrow);
    for (size_t at = 0; (at = text.find(old, at)) != std::string::npos;) {
      text.replace(at, old.size(), replace.substr(arrow + 1));
      at += replace.size() - arrow - 1;
    }
  }
  const char* changed = text.data();
  const size_t length = text.size();
  return REAL_OF(clCreateProgramWithSource)(context, 1, &changed, &length, code);
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                      const char* options, void (*notify)(cl_program, void*), void* data) {
  if (Fails("clBuildProgram")) return CL_OUT_OF_RESOURCES;
  if (Setting("strict") == "1" && options && count > 0 &&
      std::strstr(options, "-cl-fp32-correctly-rounded-divide-sqrt")) {
    cl_device_fp_config bits = 0;
    clGetDeviceInfo(devices[0], CL_DEVICE_SINGLE_FP_CONFIG, sizeof bits, &bits, nullptr);
    if (!(bits & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT)) return CL_INVALID_BUILD_OPTIONS;
  }
  return REAL_OF(clBuildProgram)(program, count, devices, options, notify, data);
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                             size_t size, void* value, size_t* size_ret) {
  if (what == CL_PROGRAM_BUILD_LOG && Setting("log") == "empty") {
    return GiveText("", size, value, size_ret);
  }
  return REAL_OF(clGetProgramBuildInfo)(program, device, what, size, value, size_ret);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info what, size_t size, void* value,
                                size_t* size_ret) {
  if (what != CL_KERNEL_WORK_GROUP_SIZE) {
    return REAL_OF(clGetKernelWorkGroupInfo)(kernel, device, what, size, value, size_ret);
  }
  size_t real = 0;
  const cl_int code =
      REAL_OF(clGetKernelWorkGroupInfo)(kernel, device, what, sizeof real, &real, nullptr);
  if (code != CL_SUCCESS) return code;
  const size_t limit = KernelGroup(kernel, real);
  return Give(&limit, sizeof limit, size, value, size_ret);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint waits, const cl_event* events, cl_event* event) {
  if (Fails("clEnqueueNDRangeKernel")) return CL_OUT_OF_RESOURCES;
  const std::string refused = Setting("refuse");
  if (!refused.empty() && KernelName(kernel) == refused) return CL_OUT_OF_RESOURCES;
  if (local) {
    size_t items = 1;
    for (cl_uint i = 0; i < dimensions; ++i) items *= local[i];
    if (items > KernelGroup(kernel, SIZE_MAX)) return CL_INVALID_WORK_GROUP_SIZE;
  }
  return REAL_OF(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits,
                                         events, event);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void* host,
                      cl_int* code) {
  cl_int ignored;
  cl_int* const out = code ? code : &ignored;
  if (Fails("clCreateBuffer")) {
    *out = CL_OUT_OF_RESOURCES;
    return nullptr;
  }
  const uint64_t memory = Number("memory", UINT64_MAX);
  if (bytes_in_use + size > memory) {
    *out = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  const cl_mem buffer = REAL_OF(clCreateBuffer)(context, flags, size, host, out);
  if (buffer) bytes_in_use += size;
  return buffer;
}

cl_int clReleaseMemObject(cl_mem buffer) {
  cl_uint references = 0;
  size_t size = 0;
  clGetMemObjectInfo(buffer, CL_MEM_REFERENCE_COUNT, sizeof references, &references, nullptr);
  clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, nullptr);
  const cl_int code = REAL_OF(clReleaseMemObject)(buffer);
  if (code == CL_SUCCESS && references == 1) bytes_in_use -= size;
  return code;
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* code) {
  if (!Fails("clCreateKernel")) return REAL_OF(clCreateKernel)(program, name, code);
  if (code) *code = CL_OUT_OF_RESOURCES;
  return nullptr;
}

cl_context clCreateContext(const cl_context_properties* properties, cl_uint count,
                           const cl_device_id* devices,
                           void (*notify)(const char*, const void*, size_t, void*), void* data,
                           cl_int* code) {
  if (!Fails("clCreateContext")) {
    return REAL_OF(clCreateContext)(properties, count, devices, notify, data, code);
  }
  if (code) *code = CL_OUT_OF_RESOURCES;
  return nullptr;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int* code) {
  if (!Fails("clCreateCommandQueue")) {
    return REAL_OF(clCreateCommandQueue)(context, device, properties, code);
  }
  if (code) *code = CL_OUT_OF_RESOURCES;
  return nullptr;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  if (Fails("clSetKernelArg")) return CL_OUT_OF_RESOURCES;
  return REAL_OF(clSetKernelArg)(kernel, index, size, value);
}

cl_int clFinish(cl_command_queue queue) {
  if (Fails("clFinish")) return CL_OUT_OF_RESOURCES;
  return REAL_OF(clFinish)(queue);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void* target, cl_uint waits, const cl_event* events,
                           cl_event* event) {
  if (Fails("clEnqueueReadBuffer")) return CL_OUT_OF_RESOURCES;
  return REAL_OF(clEnqueueReadBuffer)(queue, buffer, blocking, offset, size, target, waits, events,
                                      event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void* source, cl_uint waits, const cl_event* events,
                            cl_event* event) {
  if (Fails("clEnqueueWriteBuffer")) return CL_OUT_OF_RESOURCES;
  return REAL_OF(clEnqueueWriteBuffer)(queue, buffer, blocking, offset, size, source, waits, events,
                                       event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target, size_t from,
                           size_t to, size_t size, cl_uint waits, const cl_event* events,
                           cl_event* event) {
  if (Fails("clEnqueueCopyBuffer")) return CL_OUT_OF_RESOURCES;
  return REAL_OF(clEnqueueCopyBuffer)(queue, source, target, from, to, size, waits, events, event);
}

}  // extern "C"
