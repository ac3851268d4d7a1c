#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "caffe/device/opencl/opencl_api.hpp"

namespace caffe::opencl {

// A kernel whose arguments are set.
struct LaunchWork {
  cl_kernel kernel;
  cl_uint dimensions;
  std::array<size_t, 3> global, local;
};

struct CopyWork {
  cl_mem source, target;
  size_t source_offset, target_offset, bytes;
};

struct FillWork {
  cl_mem target;
  std::array<uint8_t, 16> pattern;
  size_t pattern_bytes, offset, bytes;
};

// The work of one command of a queue.
using Work = std::variant<LaunchWork, CopyWork, FillWork>;

// Enqueues the work after these events. `event`, unless null, receives the event of the command.
// `where` names the device, or the kernel, in messages.
void Enqueue(const Work& work, cl_command_queue queue, std::span<const cl_event> after,
             cl_event* event, const std::string& where);

}  // namespace caffe::opencl
