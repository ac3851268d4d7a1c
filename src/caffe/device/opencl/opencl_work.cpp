#include "caffe/device/opencl/opencl_work.hpp"

namespace caffe::opencl {

void Enqueue(const Work& work, cl_command_queue queue, std::span<const cl_event> after,
             cl_event* event, const std::string& where) {
  const auto count = static_cast<cl_uint>(after.size());
  const cl_event* const events = after.empty() ? nullptr : after.data();
  if (const auto* launch = std::get_if<LaunchWork>(&work)) {
    Check(clEnqueueNDRangeKernel(queue, launch->kernel, launch->dimensions, nullptr,
                                 launch->global.data(), launch->local.data(), count, events, event),
          "clEnqueueNDRangeKernel", where);
  } else if (const auto* copy = std::get_if<CopyWork>(&work)) {
    Check(clEnqueueCopyBuffer(queue, copy->source, copy->target, copy->source_offset,
                              copy->target_offset, copy->bytes, count, events, event),
          "clEnqueueCopyBuffer", where);
  } else {
    const auto& fill = std::get<FillWork>(work);
    Check(clEnqueueFillBuffer(queue, fill.target, fill.pattern.data(), fill.pattern_bytes,
                              fill.offset, fill.bytes, count, events, event),
          "clEnqueueFillBuffer", where);
  }
}

}  // namespace caffe::opencl
