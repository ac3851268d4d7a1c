#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "caffe/device/opencl/opencl_record.hpp"

namespace caffe::opencl {

// The functions of cl_khr_command_buffer. Their types are declared here, since those of the
// system's headers differ between versions of the extension.
struct CommandBufferFunctions {
  using Object = struct CommandBufferObject*;

  Object(CL_API_CALL* create)(cl_uint queues, const cl_command_queue* queue,
                              const uint64_t* properties, cl_int* code);
  cl_int(CL_API_CALL* finalize)(Object);
  cl_int(CL_API_CALL* release)(Object);
  cl_int(CL_API_CALL* enqueue)(cl_uint queues, cl_command_queue* queue, Object, cl_uint waits,
                               const cl_event* after, cl_event* event);
  cl_int(CL_API_CALL* launch)(Object, cl_command_queue, const uint64_t* properties, cl_kernel,
                              cl_uint dimensions, const size_t* offset, const size_t* global,
                              const size_t* local, cl_uint waits, const cl_uint* after,
                              cl_uint* point, void** handle);
  // Whether copies and fills have properties, too: since version 0.9.5.
  bool has_properties = false;
  void* copy = nullptr;
  void* fill = nullptr;

  // Empty if the device lacks the extension, or if the same buffer cannot be enqueued again before
  // it has run.
  static std::optional<CommandBufferFunctions> Find(cl_platform_id platform, cl_device_id device);
};

// Commands in order, which the driver keeps.
class CommandBuffer {
 public:
  // `queue` is one of the queues' kind that Enqueue gets. The functions must outlive this object.
  CommandBuffer(const CommandBufferFunctions& functions, cl_command_queue queue,
                std::span<const Command> commands, std::string where);
  // Waits for the last run.
  ~CommandBuffer();
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;
  void Enqueue(cl_command_queue queue);

 private:
  void Add(const Command& command);

  const CommandBufferFunctions& functions_;
  const std::string where_;
  CommandBufferFunctions::Object object_ = nullptr;
  Handle<cl_event> last_;
};

}  // namespace caffe::opencl
