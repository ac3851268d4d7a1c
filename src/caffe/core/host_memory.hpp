#pragma once

#include <cstdint>

namespace caffe {

// Memory of the host for arrays: null if there is not enough. `alignment` is a power of two.
void* AllocateHostMemory(int64_t bytes, int64_t alignment) noexcept;
// The pages of larger arrays go back to the system at once, even where the allocator would keep
// them for later requests.
void FreeHostMemory(void* memory) noexcept;
// Has the allocator return what it keeps to the system.
void ReleaseHostMemory() noexcept;

}  // namespace caffe
