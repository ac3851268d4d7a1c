#include "caffe/device/opencl/opencl_api.hpp"

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/process_mark.hpp"

namespace caffe::opencl {
namespace {

std::string Trimmed(std::string text) {
  const auto blank = [](char c) { return c == '\0' || c == ' ' || c == '\n'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  const size_t first = text.find_first_not_of(" \n");
  return first == std::string::npos ? std::string() : text.substr(first);
}

std::string Failure(cl_int code, const char* call, const std::string& where) {
  return Concat(where, ": ", call, " failed: ", ErrorName(code), " (", code, ")");
}

}  // namespace

const char* ErrorName(cl_int code) {
  switch (code) {
#define CAFFE_CODE(name) \
  case name: return #name
    CAFFE_CODE(CL_SUCCESS);
    CAFFE_CODE(CL_DEVICE_NOT_FOUND);
    CAFFE_CODE(CL_DEVICE_NOT_AVAILABLE);
    CAFFE_CODE(CL_COMPILER_NOT_AVAILABLE);
    CAFFE_CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    CAFFE_CODE(CL_OUT_OF_RESOURCES);
    CAFFE_CODE(CL_OUT_OF_HOST_MEMORY);
    CAFFE_CODE(CL_PROFILING_INFO_NOT_AVAILABLE);
    CAFFE_CODE(CL_MEM_COPY_OVERLAP);
    CAFFE_CODE(CL_BUILD_PROGRAM_FAILURE);
    CAFFE_CODE(CL_MAP_FAILURE);
    CAFFE_CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET);
    CAFFE_CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    CAFFE_CODE(CL_COMPILE_PROGRAM_FAILURE);
    CAFFE_CODE(CL_LINKER_NOT_AVAILABLE);
    CAFFE_CODE(CL_LINK_PROGRAM_FAILURE);
    CAFFE_CODE(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
    CAFFE_CODE(CL_INVALID_VALUE);
    CAFFE_CODE(CL_INVALID_DEVICE_TYPE);
    CAFFE_CODE(CL_INVALID_PLATFORM);
    CAFFE_CODE(CL_INVALID_DEVICE);
    CAFFE_CODE(CL_INVALID_CONTEXT);
    CAFFE_CODE(CL_INVALID_QUEUE_PROPERTIES);
    CAFFE_CODE(CL_INVALID_COMMAND_QUEUE);
    CAFFE_CODE(CL_INVALID_HOST_PTR);
    CAFFE_CODE(CL_INVALID_MEM_OBJECT);
    CAFFE_CODE(CL_INVALID_BINARY);
    CAFFE_CODE(CL_INVALID_BUILD_OPTIONS);
    CAFFE_CODE(CL_INVALID_PROGRAM);
    CAFFE_CODE(CL_INVALID_PROGRAM_EXECUTABLE);
    CAFFE_CODE(CL_INVALID_KERNEL_NAME);
    CAFFE_CODE(CL_INVALID_KERNEL_DEFINITION);
    CAFFE_CODE(CL_INVALID_KERNEL);
    CAFFE_CODE(CL_INVALID_ARG_INDEX);
    CAFFE_CODE(CL_INVALID_ARG_VALUE);
    CAFFE_CODE(CL_INVALID_ARG_SIZE);
    CAFFE_CODE(CL_INVALID_KERNEL_ARGS);
    CAFFE_CODE(CL_INVALID_WORK_DIMENSION);
    CAFFE_CODE(CL_INVALID_WORK_GROUP_SIZE);
    CAFFE_CODE(CL_INVALID_WORK_ITEM_SIZE);
    CAFFE_CODE(CL_INVALID_GLOBAL_OFFSET);
    CAFFE_CODE(CL_INVALID_EVENT_WAIT_LIST);
    CAFFE_CODE(CL_INVALID_EVENT);
    CAFFE_CODE(CL_INVALID_OPERATION);
    CAFFE_CODE(CL_INVALID_BUFFER_SIZE);
    CAFFE_CODE(CL_INVALID_GLOBAL_WORK_SIZE);
    CAFFE_CODE(CL_INVALID_PROPERTY);
    CAFFE_CODE(CL_INVALID_COMPILER_OPTIONS);
    CAFFE_CODE(CL_INVALID_LINKER_OPTIONS);
#undef CAFFE_CODE
    case -1001: return "CL_PLATFORM_NOT_FOUND_KHR";
    case -9999:  // NVIDIA's code for an illegal access by a kernel
      return "illegal memory access";
    default: return "unknown error";
  }
}

bool DriverIsGone() noexcept {
  static const ProcessMark loaded;
  return process_is_ending || loaded.inherited();
}

void Check(cl_int code, const char* call, const std::string& where) {
  if (code != CL_SUCCESS) [[unlikely]] {
    CAFFE_THROW(Failure(code, call, where));
  }
}

void CheckQuietly(cl_int code, const char* call, const std::string& where) noexcept {
  if (code == CL_SUCCESS) return;
  try {
    log::Error(Failure(code, call, where));
  } catch (...) {
  }
}

std::string PlatformText(cl_platform_id platform, cl_platform_info what) {
  size_t size = 0;
  if (clGetPlatformInfo(platform, what, 0, nullptr, &size) != CL_SUCCESS) return {};
  std::string text(size, '\0');
  if (clGetPlatformInfo(platform, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  return Trimmed(text);
}

std::string DeviceText(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS) return {};
  std::string text(size, '\0');
  if (clGetDeviceInfo(device, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  return Trimmed(text);
}

}  // namespace caffe::opencl
