// A warm forward on the CPU allocates nothing and takes no mutex, except inside calls of libraries that
// do so. This file replaces `operator new`, pthread_mutex_lock, cblas_sgemm and
// dnnl_primitive_execute of this executable, and of the libraries that it loads, by functions that count.
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
std::atomic<int64_t> allocations{0}, locks{0}, onednn_calls{0};
// Inside a call of oneDNN or OpenBLAS, with the threads that it uses.
std::atomic<int> in_library{0};
// The thread of the test and those of OpenMP. OpenBLAS's own threads take mutexes before they sleep,
// some time after a call.
thread_local bool computes = false;

bool IsOurs() { return computes && counting.load(std::memory_order_relaxed) && in_library == 0; }

void* Allocate(size_t bytes, size_t alignment) {
  if (IsOurs()) ++allocations;
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
  if (IsOurs()) ++locks;
  return lock(mutex);
}

extern "C" __attribute__((visibility("default"))) int dnnl_primitive_execute(
    const void* primitive, void* stream, int count, const void* arguments) {
  using Execute = int (*)(const void*, void*, int, const void*);
  static const auto execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  if (counting.load(std::memory_order_relaxed)) ++onednn_calls;
  ++in_library;
  const int status = execute(primitive, stream, count, arguments);
  --in_library;
  return status;
}

// OpenBLAS allocates nothing, but takes a mutex in each call if it is not its OpenMP build.
extern "C" __attribute__((visibility("default"))) void cblas_sgemm(int order, int trans_a,
                                                                   int trans_b, int m, int n, int k,
                                                                   float alpha, const float* a,
                                                                   int lda, const float* b, int ldb,
                                                                   float beta, float* c, int ldc) {
  using Product = void (*)(int, int, int, int, int, int, float, const float*, int, const float*,
                           int, float, float*, int);
  static const auto product = reinterpret_cast<Product>(dlsym(RTLD_NEXT, "cblas_sgemm"));
  ++in_library;
  product(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  --in_library;
}

namespace caffe {
namespace {

struct Counts {
  int64_t allocations, locks, onednn_calls;
  bool operator==(const Counts&) const = default;
};
void PrintTo(const Counts& counts, std::ostream* out) {
  *out << counts.allocations << " allocations, " << counts.locks << " locks, "
       << counts.onednn_calls << " calls of oneDNN";
}

template <class Work> Counts Count(const Work& work) {
#pragma omp parallel
  computes = true;
  allocations = locks = onednn_calls = 0;
  counting = true;
  work();
  counting = false;
  return {allocations, locks, onednn_calls};
}

constexpr Counts kNone{0, 0, 0};

Counts OfAWarmForward(const std::string& file, DataType type = kFloat) {
  NetParameter parameter = ReadNetParameter(CAFFE_SOURCE_DIR "/models/" + file);
  parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  if (type == kBfloat16) parameter.set_data_type(CAFFE_BFLOAT16);
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
  const Counts counts = OfAWarmForward("lenet/lenet.prototxt");
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

// Convolutions, LRN, pooling, sums, Concat. One call of oneDNN computes a convolution with its bias
// and, in bfloat16, its residual; the images are converted without it.
TEST(SteadyStateTest, ModelsAllocateNothing) {
  struct Case {
    const char* file;
    int64_t convolutions;
  };
  const Case cases[] = {{"squeezenet/deploy.prototxt", 26},
                        {"mobilenet_v1/deploy.prototxt", 28},
                        {"googlenet/deploy.prototxt", 57},
                        {"resnet50/deploy.prototxt", 53}};
  for (const Case& one : cases) {
    for (const DataType type : {kFloat, kBfloat16}) {
      const Counts counts = OfAWarmForward(one.file, type);
      EXPECT_EQ(counts.allocations, 0) << one.file << " " << type.name();
      EXPECT_EQ(counts.locks, 0) << one.file << " " << type.name();
      EXPECT_LE(counts.onednn_calls, one.convolutions) << one.file << " " << type.name();
    }
  }
}

TEST(SteadyStateTest, EveryModelComputesWithoutOneDnn) {
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
