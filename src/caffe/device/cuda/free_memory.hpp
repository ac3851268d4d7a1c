#pragma once

#include <cstdint>
#include <optional>

namespace caffe {

class Device;

// What the driver says is free, in bytes; none if the device is not one of CUDA.
std::optional<int64_t> FreeCudaMemory(const Device& device);

}  // namespace caffe
