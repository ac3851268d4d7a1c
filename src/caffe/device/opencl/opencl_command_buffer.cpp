#include "caffe/device/opencl/opencl_command_buffer.hpp"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace caffe::opencl {
namespace {

constexpr cl_device_info kExtensions = 0x1060;       // CL_DEVICE_EXTENSIONS_WITH_VERSION
constexpr cl_device_info kCapabilities = 0x12A9;     // CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR
constexpr cl_device_info kQueueProperties = 0x12AA;  // …_REQUIRED_QUEUE_PROPERTIES_KHR
constexpr cl_bitfield kCanRunAgain = 1 << 2;         // …_CAPABILITY_SIMULTANEOUS_USE_KHR
constexpr uint64_t kFlags = 0x1293;                  // CL_COMMAND_BUFFER_FLAGS_KHR
constexpr uint64_t kRunsAgain = 1 << 0;              // CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR
constexpr cl_uint kPropertiesSince = (0 << 22) | (9 << 12) | 5;

// The version of an extension; 0 if the device lacks it.
cl_uint VersionOf(cl_device_id device, std::string_view name) {
  struct Extension {  // cl_name_version
    cl_uint version;
    char name[64];
  };
  size_t bytes = 0;
  if (clGetDeviceInfo(device, kExtensions, 0, nullptr, &bytes) != CL_SUCCESS) return 0;
  std::vector<Extension> all(bytes / sizeof(Extension));
  if (all.empty() || clGetDeviceInfo(device, kExtensions, all.size() * sizeof(Extension),
                                     all.data(), nullptr) != CL_SUCCESS) {
    return 0;
  }
  for (const Extension& one : all) {
    if (name == std::string_view(one.name, strnlen(one.name, sizeof one.name))) return one.version;
  }
  return 0;
}

using OldCopy = cl_int(CL_API_CALL*)(CommandBufferFunctions::Object, cl_command_queue, cl_mem,
                                     cl_mem, size_t, size_t, size_t, cl_uint, const cl_uint*,
                                     cl_uint*, void**);
using Copy = cl_int(CL_API_CALL*)(CommandBufferFunctions::Object, cl_command_queue, const uint64_t*,
                                  cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_uint*,
                                  cl_uint*, void**);
using OldFill = cl_int(CL_API_CALL*)(CommandBufferFunctions::Object, cl_command_queue, cl_mem,
                                     const void*, size_t, size_t, size_t, cl_uint, const cl_uint*,
                                     cl_uint*, void**);
using Fill = cl_int(CL_API_CALL*)(CommandBufferFunctions::Object, cl_command_queue, const uint64_t*,
                                  cl_mem, const void*, size_t, size_t, size_t, cl_uint,
                                  const cl_uint*, cl_uint*, void**);

}  // namespace

std::optional<CommandBufferFunctions> CommandBufferFunctions::Find(cl_platform_id platform,
                                                                   cl_device_id device) {
  const cl_uint version = VersionOf(device, "cl_khr_command_buffer");
  if (version == 0 || DeviceValue<cl_bitfield>(device, kQueueProperties, 0) != 0 ||
      (DeviceValue<cl_bitfield>(device, kCapabilities, 0) & kCanRunAgain) == 0) {
    return std::nullopt;
  }
  CommandBufferFunctions functions{};
  functions.has_properties = version >= kPropertiesSince;
  const auto bind = [&](auto* function, const char* name) {
    void* const found = clGetExtensionFunctionAddressForPlatform(platform, name);
    std::memcpy(function, &found, sizeof found);
    return found != nullptr;
  };
  const bool all = bind(&functions.create, "clCreateCommandBufferKHR") &&
                   bind(&functions.finalize, "clFinalizeCommandBufferKHR") &&
                   bind(&functions.release, "clReleaseCommandBufferKHR") &&
                   bind(&functions.enqueue, "clEnqueueCommandBufferKHR") &&
                   bind(&functions.launch, "clCommandNDRangeKernelKHR") &&
                   bind(&functions.copy, "clCommandCopyBufferKHR") &&
                   bind(&functions.fill, "clCommandFillBufferKHR");
  return all ? std::optional(functions) : std::nullopt;
}

CommandBuffer::CommandBuffer(const CommandBufferFunctions& functions, cl_command_queue queue,
                             std::span<const Command> commands, std::string where)
    : functions_(functions), where_(std::move(where)) {
  const uint64_t properties[] = {kFlags, kRunsAgain, 0};
  cl_int code = CL_SUCCESS;
  object_ = functions_.create(1, &queue, properties, &code);
  Check(code, "clCreateCommandBufferKHR", where_);
  try {
    for (const Command& command : commands) Add(command);
    Check(functions_.finalize(object_), "clFinalizeCommandBufferKHR", where_);
  } catch (...) {
    CheckQuietly(functions_.release(object_), "clReleaseCommandBufferKHR", where_);
    throw;
  }
}

CommandBuffer::~CommandBuffer() {
  if (DriverIsGone()) return;
  const cl_event last = last_.get();
  if (last) CheckQuietly(clWaitForEvents(1, &last), "clWaitForEvents", where_);
  CheckQuietly(functions_.release(object_), "clReleaseCommandBufferKHR", where_);
}

// The queue of a command is null: that of the buffer.
void CommandBuffer::Add(const Command& command) {
  cl_uint point = 0;
  if (const auto* launch = std::get_if<LaunchWork>(&command.work)) {
    Check(
        functions_.launch(object_, nullptr, nullptr, launch->kernel, launch->dimensions, nullptr,
                          launch->global.data(), launch->local.data(), 0, nullptr, &point, nullptr),
        "clCommandNDRangeKernelKHR", command.where);
    return;
  }
  const auto call = [&](auto* with, auto* without, void* function, auto... arguments) {
    std::memcpy(with, &function, sizeof function);
    std::memcpy(without, &function, sizeof function);
    return functions_.has_properties
               ? (*with)(object_, nullptr, nullptr, arguments..., 0, nullptr, &point, nullptr)
               : (*without)(object_, nullptr, arguments..., 0, nullptr, &point, nullptr);
  };
  if (const auto* one = std::get_if<CopyWork>(&command.work)) {
    Copy with;
    OldCopy without;
    Check(call(&with, &without, functions_.copy, one->source, one->target, one->source_offset,
               one->target_offset, one->bytes),
          "clCommandCopyBufferKHR", command.where);
    return;
  }
  const auto& one = std::get<FillWork>(command.work);
  Fill with;
  OldFill without;
  Check(
      call(&with, &without, functions_.fill, one.target,
           static_cast<const void*>(one.pattern.data()), one.pattern_bytes, one.offset, one.bytes),
      "clCommandFillBufferKHR", command.where);
}

void CommandBuffer::Enqueue(cl_command_queue queue) {
  cl_event event = nullptr;
  Check(functions_.enqueue(1, &queue, object_, 0, nullptr, &event), "clEnqueueCommandBufferKHR",
        where_);
  last_.reset(event);
}

}  // namespace caffe::opencl
