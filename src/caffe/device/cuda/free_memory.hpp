#pragma once

#include <cstdint>
#include <optional>

namespace caffe {

class Device;

// The bytes that the driver says are free; none if the device is not one of CUDA.
std::optional<int64_t> FreeCudaMemory(const Device& device);

}  // namespace caffe
