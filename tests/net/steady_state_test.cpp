// A warm forward on the CPU allocates nothing and takes no mutex. This file replaces `operator new` and
// pthread_mutex_lock of this executable, and of the libraries that it loads, by functions that count.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "net/net_support.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0}, locks{0};

void* Allocate(size_t bytes, size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  bytes = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  return alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, bytes)
                                               : std::malloc(bytes);
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  void* memory = Allocate(bytes, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting.load(std::memory_order_relaxed)) ++locks;
  return lock(mutex);
}

namespace caffe {
namespace {

struct Counts {
  int64_t allocations, locks;
};

template <class Work> Counts Count(const Work& work) {
  allocations = locks = 0;
  counting = true;
  work();
  counting = false;
  return {allocations, locks};
}

Counts OfAWarmForward(const char* file) {
  NetParameter parameter = ReadNetParameter(std::string(CAFFE_SOURCE_DIR "/models/") + file);
  parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  Net net(parameter, options);
  for (int i = 0; i < 3; ++i) net.Forward();
  return Count([&] { net.Forward(); });
}

TEST(SteadyStateTest, CountersCount) {
  std::mutex mutex;
  const Counts counts = Count([&] {
    const std::lock_guard lock(mutex);
    // Through a pointer that the compiler does not know, so that it cannot leave the call out.
    static void* volatile memory;
    memory = ::operator new(7);
    ::operator delete(memory);
  });
  EXPECT_EQ(counts.allocations, 1);
  EXPECT_EQ(counts.locks, 1);
}

TEST(SteadyStateTest, LeNetAllocatesNothing) {
  const Counts counts = OfAWarmForward("lenet/lenet.prototxt");
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

// oneDNN allocates in each call; everything else does not.
TEST(SteadyStateTest, SqueezeNetAllocatesNothing) {
  setenv("CAFFE_LIBRARY", "conv=openblas", 1);
  const Counts counts = OfAWarmForward("squeezenet/deploy.prototxt");
  unsetenv("CAFFE_LIBRARY");
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

}  // namespace
}  // namespace caffe
