#include "caffe/core/host_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace caffe {
namespace {

constexpr uintptr_t kLeastReturned = 128 << 10;

}  // namespace

void* AllocateHostMemory(int64_t bytes, int64_t alignment) noexcept {
  return ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
}

void FreeHostMemory(void* memory, int64_t alignment) noexcept {
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
  ::operator delete(memory, std::align_val_t(alignment));
}

void ReleaseHostMemory() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace caffe
