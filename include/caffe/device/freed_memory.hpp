#pragma once

#include <cstdint>

namespace caffe {

class Device;

// Devices keep freed memory for later requests. All that a device holds is at most a quarter (or
// 1 MiB) more than what was in use at the same time during the last 256 to 512 allocations. What
// was freed first goes back to the system first.

// How many bytes of freed memory the device keeps now.
int64_t FreedBytes(const Device& device);
// Keeps at most this many bytes of freed memory instead; negative: as described above. The default
// is that of the variable CAFFE_FREED_MEMORY, in MiB.
void SetMostFreedBytes(Device* device, int64_t bytes) noexcept;
// Keeps no more freed memory than is in use. Nets call it when they are destroyed.
void TrimFreedMemory(Device* device) noexcept;
// Returns the freed memory of all devices of this process, and that which the C library keeps, to
// the system. Memory in use, such as that of nets, stays. Returns the bytes that devices gave back.
int64_t ReleaseMemory() noexcept;

}  // namespace caffe
