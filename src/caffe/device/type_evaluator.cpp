#include "type_evaluator.hpp"

#include <bit>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/host_type.h"
#include "caffe/device/device.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "custom_type.hpp"
#include "host_compiler.hpp"

namespace caffe {
namespace {

// C++ without headers, for any compiler that knows C++11.
constexpr char kPrelude[] = R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#define GLOBAL
#define DEVICE_FN static inline __attribute__((always_inline, unused))
#define AT(p, i) (i)
#define SQRT_F32(v) __builtin_sqrtf(v)
#define EXP_F64(v) __builtin_exp(v)
#define LOG_F64(v) __builtin_log(v)
#define POW_F64(v, w) __builtin_pow(v, w)
#define EXPM1_F64(v) __builtin_expm1(v)
#define TANH_F64(v) __builtin_tanh(v)
#define SQRT_F64(v) __builtin_sqrt(v)
static inline float as_f32(u32 v) { float f; __builtin_memcpy(&f, &v, 4); return f; }
static inline u32 as_u32(float v) { u32 b; __builtin_memcpy(&b, &v, 4); return b; }
)";

// The text after the type's functions. Kernels call HostTypeFunctions; see
// kernels/types/functions.h.
constexpr char kFunctions[] = R"(
extern "C" void caffe_type_values(const u32* codes, float* values, u64 n) {
  _Pragma("omp simd") for (u64 i = 0; i < n; ++i) values[i] = TO_FLOAT(codes[i] & MASK);
}
extern "C" void caffe_type_codes(const float* values, u32* codes, u64 n) {
  _Pragma("omp simd") for (u64 i = 0; i < n; ++i) codes[i] = FROM_FLOAT(values[i]);
}
static float Value(u32 code) { return TO_FLOAT(code & MASK); }
static u32 Code(float value) { return FROM_FLOAT(value); }
template <int kCount> static void Values(const u32* __restrict codes, float* __restrict values) {
  _Pragma("omp simd") for (i32 i = 0; i < kCount; ++i) values[i] = TO_FLOAT(codes[i] & MASK);
}
template <int kCount> static void Codes(const float* __restrict values, u32* __restrict codes) {
  _Pragma("omp simd") for (i32 i = 0; i < kCount; ++i) codes[i] = FROM_FLOAT(values[i]);
}
struct Functions {
  float (*value)(u32);
  u32 (*code)(float);
  void (*values[3])(const u32*, float*);
  void (*codes[3])(const float*, u32*);
};
extern "C" const Functions* caffe_type_functions() {
  static const Functions functions = {Value, Code, {Values<4>, Values<8>, Values<16>},
                                      {Codes<4>, Codes<8>, Codes<16>}};
  return &functions;
}
)";

std::string HostText(const TypeInfo& info) {
  std::set<std::string> included;
  std::string text = kPrelude;
  for (const char* part : {"dialect/common", "math/float", "types/f32"}) {
    text += KernelTextWithIncludes(part, &included);
  }
  text += CustomFunctions(info, &included);
  text += Concat("#define TO_FLOAT to_float_", info.word, "\n#define FROM_FLOAT from_float_",
                 info.word, "\n#define MASK ", CodeMask(info), "\n");
  return text + kFunctions;
}

std::string Options() { return "-std=c++11 " + HostCompilerOptions(); }

class CompiledFunctions final : public TypeFunctions {
 public:
  CompiledFunctions(const DynamicLibrary& library, const std::string& what)
      : values_(reinterpret_cast<Values_>(library.Symbol("caffe_type_values"))),
        codes_(reinterpret_cast<Codes_>(library.Symbol("caffe_type_codes"))) {
    const auto host = reinterpret_cast<Host_>(library.Symbol("caffe_type_functions"));
    CAFFE_CHECK(values_ && codes_ && host, what, " is a library without functions");
    host_ = host();
  }
  void Values(const uint32_t* codes, float* values, size_t count) const override {
    values_(codes, values, count);
  }
  void Codes(const float* values, uint32_t* codes, size_t count) const override {
    codes_(values, codes, count);
  }
  const HostTypeFunctions* host() const override { return host_; }

 private:
  using Values_ = void (*)(const uint32_t*, float*, unsigned long long);
  using Codes_ = void (*)(const float*, uint32_t*, unsigned long long);
  using Host_ = const HostTypeFunctions* (*)();
  Values_ values_;
  Codes_ codes_;
  const HostTypeFunctions* host_;
};

// The shared library that a compiler makes of the texts; nothing without a compiler.
std::optional<std::string> CompileLibrary(const TypeInfo& info) {
  std::optional<HostLibrary> made = CompileHostLibrary(HostText(info), Options());
  if (!made) return std::nullopt;
  CAFFE_CHECK(made->compiled, "data type '", info.name, "': its texts do not compile by ",
              made->compiler, ", or a function does not return a value on each path:\n", made->log);
  return std::move(made->bytes);
}

std::unique_ptr<TypeFunctions> Load(const std::string& library, const std::string& name) {
  return std::make_unique<CompiledFunctions>(OpenHostLibrary(library, "data type '" + name + "'"),
                                             "what a compiler made of data type " + name);
}

// From the program cache or from the compiler; null without either. Of a type with a table the
// cache has the table.
std::unique_ptr<TypeFunctions> Compiled(const TypeInfo& info) {
  ProgramCache& cache = Runtime::Get().program_cache();
  TypeInfo nameless = info;
  nameless.name = nameless.word = "type";
  const std::string key = CacheKey({HostText(nameless), Options(), "cpu", "type functions 2"});
  const bool cached = info.bits > kMostTableBits;
  if (const auto found = cached ? cache.Find(key) : std::nullopt) {
    return Load(found->binary, info.name);
  }
  const auto library = CompileLibrary(info);
  if (!library) return nullptr;
  auto functions = Load(*library, info.name);
  if (cached) {
    ProgramCache::Entry entry;
    entry.binary = *library;
    cache.Store(key, "cpu", "type " + info.name, entry);
  }
  return functions;
}

struct Array {
  Array(Device* on, int64_t bytes) : device(on), pointer(on->Allocate(bytes, "values of a type")) {}
  ~Array() { device->Free(pointer); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Device* device;
  DevicePtr pointer;
};

class DeviceFunctions final : public TypeFunctions {
 public:
  DeviceFunctions(Device* device, const TypeInfo& info)
      : device_(device), name_(info.name), bits_(info.bits) {
    std::set<std::string> included;
    ProgramText text = ProgramBuilder(device, "type " + info.name)
                           .Define("TO_FLOAT(code)", Concat("to_float_", info.word, "((code) & ",
                                                            CodeMask(info), ")"))
                           .Define("FROM_FLOAT(v)", "from_float_" + info.word + "(v)")
                           .Body("quant/type_values")
                           .Text();
    // The functions come before the body, which calls them.
    text.source.insert(text.source.find("#line 1 \"kernels/quant/type_values.h\""),
                       CustomFunctionsThatReturn(info, &included));
    const auto program = Built(device, text);
    values_ = program->CreateKernel("type_values");
    codes_ = program->CreateKernel("type_codes");
  }
  void Values(const uint32_t* codes, float* values, size_t count) const override {
    Launch(values_.get(), codes, values, count);
    for (size_t i = 0; i < count; ++i) {
      CAFFE_CHECK(std::bit_cast<uint32_t>(values[i]) != kNoValue, "data type '", name_,
                  "': to_float does not return a value on each path: none for the code ", codes[i]);
    }
  }
  void Codes(const float* values, uint32_t* codes, size_t count) const override {
    Launch(codes_.get(), values, codes, count);
    for (size_t i = 0; i < count && bits_ < 32; ++i) {
      CAFFE_CHECK(codes[i] != kNoCode, "data type '", name_,
                  "': from_float does not return a value on each path: none for ", values[i]);
    }
  }

 private:
  std::shared_ptr<Program> Built(Device* device, const ProgramText& text) const {
    try {
      return device->Build(text);
    } catch (const Error& error) {
      CAFFE_THROW("data type '", name_, "': its texts do not compile by ", device->info().id,
                  ", or a function does not return a value on each path:\n", error.what());
    }
  }

  void Launch(Kernel* kernel, const void* source, void* target, size_t count) const {
    const auto n = static_cast<int64_t>(count);
    if (n == 0) return;
    const std::lock_guard lock(mutex_);
    const Array from(device_, 4 * n), to(device_, 4 * n);
    device_->Upload(from.pointer, source, 4 * n);
    kernel->Launch(n, {n, from.pointer.ReadOnly(), to.pointer});
    device_->Download(target, to.pointer, 4 * n);
  }

  Device* device_;
  const std::string name_;
  const int bits_;
  std::unique_ptr<Kernel> values_, codes_;
  mutable std::mutex mutex_;
};

}  // namespace

std::unique_ptr<TypeFunctions> CompileType(const TypeInfo& info) {
  if (auto compiled = Compiled(info)) return compiled;
  for (Device* device : Runtime::Get().devices()) {
    return std::make_unique<DeviceFunctions>(device, info);
  }
  CAFFE_THROW("data type '", info.name, "': its texts need a C++ compiler (", HostCompilerName(),
              ") or an OpenCL or CUDA device; there is none. With at most ", kMostTableBits,
              " bits, caffe.register_type also takes functions of Python, and RegisterType those ",
              "of C++");
}

}  // namespace caffe
