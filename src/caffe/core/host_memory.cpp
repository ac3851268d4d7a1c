#include "caffe/core/host_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace caffe {
namespace {

constexpr uintptr_t kLeastReturned = 128 << 10;

}  // namespace

void* AllocateHostMemory(int64_t bytes, int64_t alignment) noexcept {
  // Not operator new: its memory is released with the alignment, which FreeHostMemory does not
  // know.
  void* memory = nullptr;
  if (posix_memalign(&memory, static_cast<size_t>(alignment), static_cast<size_t>(bytes)) != 0)
    return nullptr;
  return memory;
}

void FreeHostMemory(void* memory) noexcept {
  if (!memory) return;
  // glibc serves requests of up to 32 MiB from its heap after a few of them were freed, and a heap
  // returns only its end.
  const uintptr_t bytes = malloc_usable_size(memory);
  if (bytes >= kLeastReturned) {
    static const uintptr_t page = sysconf(_SC_PAGESIZE);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (begin + page - 1) / page * page, last = (begin + bytes) / page * page;
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  std::free(memory);
}

void ReleaseHostMemory() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace caffe
