// A warm forward on the CPU allocates nothing, takes no mutex and looks nothing up by name, except
// inside calls of libraries that do so. This file replaces `operator new`, pthread_mutex_lock,
// memcmp, getenv, the hash function of strings, cblas_sgemm and dnnl_primitive_execute of this
// executable, and of the libraries that it loads, by functions that count.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <unordered_map>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "net/net_support.hpp"
#include "support/scoped_variable.hpp"

namespace {

std::atomic<bool> counting{false};
// `names`: comparisons and hashes of text, and variables of the environment.
std::atomic<int64_t> allocations{0}, locks{0}, names{0}, onednn_calls{0};
// Inside a call of oneDNN or OpenBLAS, with the threads that it uses.
std::atomic<int> in_library{0}, in_onednn{0};
std::atomic<int64_t> onednn_bytes{0};  // that oneDNN allocates
// The thread of the test and those of OpenMP. OpenBLAS's own threads take mutexes before they
// sleep, some time after a call.
thread_local bool computes = false;

bool IsOurs() { return computes && counting.load(std::memory_order_relaxed) && in_library == 0; }

void NoteOneDnn(size_t bytes) {
  if (counting.load(std::memory_order_relaxed) && in_onednn > 0) onednn_bytes += bytes;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (IsOurs()) ++allocations;
  NoteOneDnn(bytes);
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
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

// oneDNN and AllocateHostMemory allocate arrays by it.
extern "C" __attribute__((visibility("default"))) int posix_memalign(void** memory,
                                                                     size_t alignment,
                                                                     size_t bytes) noexcept {
  using Allocate = int (*)(void**, size_t, size_t);
  // The address sanitizer frees only what its own function allocates.
  static void* const sanitizer = dlsym(RTLD_DEFAULT, "__interceptor_posix_memalign");
  static const auto allocate =
      reinterpret_cast<Allocate>(sanitizer ? sanitizer : dlsym(RTLD_NEXT, "posix_memalign"));
  if (IsOurs()) ++allocations;
  NoteOneDnn(bytes);
  return allocate(memory, alignment, bytes);
}

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (IsOurs()) ++locks;
  return lock(mutex);
}

// A map by name compares text. Other arrays, such as shapes, have bytes that are not printed.
static bool IsText(const void* bytes, size_t count) {
  const auto* const from = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) {
    if (from[i] < ' ' || from[i] > '~') return false;
  }
  return count > 0;
}

extern "C" __attribute__((visibility("default"))) int memcmp(const void* a, const void* b,
                                                             size_t count) noexcept {
  if (IsOurs() && IsText(a, count) && IsText(b, count)) ++names;
  const auto *x = static_cast<const unsigned char*>(a), *y = static_cast<const unsigned char*>(b);
  for (; count > 0; --count, ++x, ++y) {
    if (*x != *y) return *x < *y ? -1 : 1;
  }
  return 0;
}

extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  using Get = char* (*)(const char*);
  static const auto get = reinterpret_cast<Get>(dlsym(RTLD_NEXT, "getenv"));
  if (IsOurs()) ++names;
  return get(name);
}

// libstdc++ hashes strings by this function.
namespace std {
size_t _Hash_bytes(const void* bytes, size_t count, size_t seed) {
  using Hash = size_t (*)(const void*, size_t, size_t);
  static const auto hash = reinterpret_cast<Hash>(dlsym(RTLD_NEXT, "_ZSt11_Hash_bytesPKvmm"));
  if (IsOurs() && IsText(bytes, count)) ++names;
  return hash(bytes, count, seed);
}
}  // namespace std

extern "C" __attribute__((visibility("default"))) int dnnl_primitive_execute(
    const void* primitive, void* stream, int count, const void* arguments) {
  using Execute = int (*)(const void*, void*, int, const void*);
  static const auto execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  if (counting.load(std::memory_order_relaxed)) ++onednn_calls;
  ++in_library;
  ++in_onednn;
  const int status = execute(primitive, stream, count, arguments);
  --in_onednn;
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
  int64_t allocations, locks, names, onednn_calls;
  bool operator==(const Counts&) const = default;
};
void PrintTo(const Counts& counts, std::ostream* out) {
  *out << counts.allocations << " allocations, " << counts.locks << " locks, " << counts.names
       << " names, " << counts.onednn_calls << " calls of oneDNN";
}

template <class Work> Counts Count(const Work& work) {
#pragma omp parallel
  computes = true;
  allocations = locks = names = onednn_calls = onednn_bytes = 0;
  counting = true;
  work();
  counting = false;
  return {allocations, locks, names, onednn_calls};
}

constexpr Counts kNone{0, 0, 0, 0};

// With a batch of 1. The parameters are zeros, which are made at once.
NetParameter Model(const std::string& file, DataType type) {
  NetParameter parameter = ReadNetParameter(CAFFE_SOURCE_DIR "/models/" + file);
  parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
  if (type == kBfloat16) parameter.set_data_type(CAFFE_BFLOAT16);
  for (LayerParameter& layer : *parameter.mutable_layer()) {
    layer.mutable_convolution_param()->clear_weight_filler();
    layer.mutable_inner_product_param()->clear_weight_filler();
  }
  return parameter;
}

Counts OfAWarmForward(const std::string& file, DataType type = kFloat) {
  const NetParameter parameter = Model(file, type);
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  Net net(parameter, options);
  for (int i = 0; i < 3; ++i) net.Forward();
  return Count([&] { net.Forward(); });
}

// Forward, backward and update of the model with a loss.
Counts OfAWarmIteration(const std::string& file) {
  SolverParameter parameter;
  parameter.set_base_lr(0.01F);
  parameter.set_momentum(0.9F);
  parameter.set_weight_decay(0.0005F);
  parameter.set_lr_policy("inv");
  parameter.set_gamma(0.0001F);
  parameter.set_power(0.75F);
  parameter.set_type("SGD");
  NetParameter& net = *parameter.mutable_net_param() = Model(file, kFloat);
  LayerParameter& input = *net.mutable_layer(0);
  input.add_top("label");
  input.mutable_input_param()->add_shape()->add_dim(1);
  LayerParameter& loss = *net.mutable_layer(net.layer_size() - 1);
  loss.set_type("SoftmaxWithLoss");
  loss.add_bottom("label");
  Solver solver(parameter, Runtime::Get().cpu());
  solver.set_frees_memory(true);
  solver.Step(3);
  return Count([&] { solver.Step(1); });
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
  EXPECT_EQ(counts.names, 0);
}

TEST(SteadyStateTest, LookUpsByNameAreCounted) {
  // Longer than what a string stores in itself, and made before.
  const std::string name = "a blob with a long name", other = "a blob with another name";
  const std::map<std::string, int> ordered{{name, 1}, {other, 2}};
  const std::set<std::string, std::less<>> names_of_layers{name, other};
  const std::unordered_map<std::string, int> hashed{{name, 1}, {other, 2}};
  volatile bool found = false;
  EXPECT_GT(Count([&] { found = ordered.find(name) != ordered.end(); }).names, 0);
  EXPECT_GT(Count([&] { found = names_of_layers.count(other) > 0; }).names, 0);
  EXPECT_GT(Count([&] { found = hashed.find(other) != hashed.end(); }).names, 0);
  EXPECT_GT(Count([&] { found = std::getenv("CAFFE_GRAPHS") != nullptr; }).names, 0);
  // A look-up of the library.
  NetOptions options;
  options.device = Runtime::Get().cpu();
  const Net net(Model("lenet/lenet.prototxt", kFloat), options);
  EXPECT_GT(Count([&] { found = net.BlobByName("pool1") != nullptr; }).names, 0);
  const Shape shape{1, 20, 24, 24}, same = shape;
  EXPECT_EQ(Count([&] { found = shape == same; }).names, 0);
}

TEST(SteadyStateTest, LeNetOnlyComputes) {
  const Counts counts = OfAWarmForward("lenet/lenet.prototxt");
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
  EXPECT_EQ(counts.names, 0);
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
      EXPECT_EQ(counts.names, 0) << one.file << " " << type.name();
      // Where operands are widened, a call may compute a block of a convolution.
      constexpr int64_t kBlocks = 16;
      EXPECT_LE(counts.onednn_calls, one.convolutions * (type == kFloat ? 1 : kBlocks))
          << one.file << " " << type.name();
      // Its lists of arguments, but no array: scratch memory is in the net's workspace.
      constexpr int64_t kLists = 2 << 10;
      EXPECT_LE(onednn_bytes, kLists * counts.onednn_calls) << one.file << " " << type.name();
    }
  }
}

TEST(SteadyStateTest, TrainingLooksNothingUpByName) {
  for (const char* file :
       {"lenet/lenet.prototxt", "squeezenet/deploy.prototxt", "mobilenet_v1/deploy.prototxt",
        "googlenet/deploy.prototxt", "resnet50/deploy.prototxt"}) {
    EXPECT_EQ(OfAWarmIteration(file).names, 0) << file;
  }
}

TEST(SteadyStateTest, EveryModelComputesWithoutOneDnn) {
  const ScopedVariable library("CAFFE_LIBRARY", "conv=openblas");
  for (const auto& model : std::filesystem::directory_iterator(CAFFE_SOURCE_DIR "/models")) {
    const std::string name = model.path().filename().string();
    for (const std::string& file : {name + "/deploy.prototxt", name + "/" + name + ".prototxt"}) {
      if (!std::filesystem::exists(CAFFE_SOURCE_DIR "/models/" + file)) continue;
      EXPECT_EQ(OfAWarmForward(file), kNone) << name;
    }
  }
}

}  // namespace
}  // namespace caffe
