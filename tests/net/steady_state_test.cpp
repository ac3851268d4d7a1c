// A warm forward on the CPU allocates nothing and takes no mutex. This file replaces `operator new` and
// pthread_mutex_lock of this executable, and of the libraries that it loads, by functions that count.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <string>

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
  bool operator==(const Counts&) const = default;
};
void PrintTo(const Counts& counts, std::ostream* out) {
  *out << counts.allocations << " allocations, " << counts.locks << " locks";
}

template <class Work> Counts Count(const Work& work) {
  allocations = locks = 0;
  counting = true;
  work();
  counting = false;
  return {allocations, locks};
}

constexpr Counts kNone{0, 0};

Counts OfAWarmForward(const std::string& file) {
  NetParameter parameter = ReadNetParameter(CAFFE_SOURCE_DIR "/models/" + file);
  parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  // Zeros are made at once.
  for (LayerParameter& layer : *parameter.mutable_layer()) {
    layer.mutable_convolution_param()->clear_weight_filler();
    layer.mutable_inner_product_param()->clear_weight_filler();
  }
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

TEST(SteadyStateTest, LeNetOnlyComputes) {
  EXPECT_EQ(OfAWarmForward("lenet/lenet.prototxt"), kNone);
}

// oneDNN allocates in each call; everything else does not.
TEST(SteadyStateTest, EveryModelOnlyComputes) {
  setenv("CAFFE_LIBRARY", "conv=openblas", 1);
  for (const auto& model : std::filesystem::directory_iterator(CAFFE_SOURCE_DIR "/models")) {
    const std::string name = model.path().filename().string();
    for (const std::string& file : {name + "/deploy.prototxt", name + "/" + name + ".prototxt"}) {
      if (!std::filesystem::exists(CAFFE_SOURCE_DIR "/models/" + file)) continue;
      EXPECT_EQ(OfAWarmForward(file), kNone) << name;
    }
  }
  unsetenv("CAFFE_LIBRARY");
}

}  // namespace
}  // namespace caffe
