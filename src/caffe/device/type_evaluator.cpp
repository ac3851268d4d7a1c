#include "type_evaluator.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"
#include "custom_type.hpp"

extern char** environ;

namespace caffe {
namespace {

namespace fs = std::filesystem;

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
#define DEVICE_FN static inline
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

std::string HostText(const TypeInfo& info) {
  std::set<std::string> included;
  std::string text = kPrelude;
  for (const char* part : {"dialect/common", "math/float", "types/f32"}) {
    text += KernelTextWithIncludes(part, &included);
  }
  text += CustomFunctions(info, &included);
  return text +
         Concat(
             "extern \"C\" void caffe_type_values(const u32* codes, float* values, u64 n) {\n"
             "  for (u64 i = 0; i < n; ++i) values[i] = to_float_",
             info.word,
             "(codes[i]);\n}\nextern \"C\" void caffe_type_codes(const float* values, "
             "u32* codes, u64 n) {\n  for (u64 i = 0; i < n; ++i) codes[i] = from_float_",
             info.word, "(values[i]);\n}\n");
}

// A folder that is removed with its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "caffe-type-XXXXXX").string();
    CAFFE_CHECK(mkdtemp(pattern.data()), "cannot create a folder in ", fs::temp_directory_path(),
                ": ", std::strerror(errno));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs a command without a shell; its messages go to `log`. The exit status; -1 if there is no such
// command.
int Run(std::vector<std::string> command, const fs::path& log) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

// CAFFE_CXX alone, or the usual names.
std::vector<std::string> Compilers() {
  const char* chosen = std::getenv("CAFFE_CXX");
  if (chosen && *chosen) return {chosen};
  return {"c++", "g++", "clang++"};
}

class CompiledEvaluator final : public TypeEvaluator {
 public:
  CompiledEvaluator(const DynamicLibrary& library, const std::string& compiler)
      : values_(reinterpret_cast<Values_>(library.Symbol("caffe_type_values"))),
        codes_(reinterpret_cast<Codes_>(library.Symbol("caffe_type_codes"))) {
    CAFFE_CHECK(values_ && codes_, compiler, " made a library without functions");
  }
  void Values(const uint32_t* codes, float* values, size_t count) override {
    values_(codes, values, count);
  }
  void Codes(const float* values, uint32_t* codes, size_t count) override {
    codes_(values, codes, count);
  }

 private:
  using Values_ = void (*)(const uint32_t*, float*, unsigned long long);
  using Codes_ = void (*)(const float*, uint32_t*, unsigned long long);
  Values_ values_;
  Codes_ codes_;
};

// Null without a compiler.
std::unique_ptr<TypeEvaluator> Compile(const TypeInfo& info) {
  const TemporaryFolder folder;
  const fs::path source = folder / "type.cpp", library = folder / "type.so", log = folder / "log";
  std::ofstream(source) << HostText(info);
  for (const std::string& compiler : Compilers()) {
    const int status = Run({compiler, "-std=c++11", "-O2", "-ffp-contract=off", "-fPIC", "-shared",
                            "-w", "-o", library.string(), source.string()},
                           log);
    if (status < 0) continue;
    CAFFE_CHECK(status == 0, "data type '", info.name, "': its texts do not compile by ", compiler,
                ":\n", Contents(log));
    std::string why;
    const auto opened = DynamicLibrary::Open({library.string()}, &why);
    CAFFE_CHECK(opened, "data type '", info.name, "': cannot load what ", compiler,
                " made of its texts: ", why);
    return std::make_unique<CompiledEvaluator>(*opened, compiler);
  }
  return nullptr;
}

struct Array {
  Array(Device* on, int64_t bytes) : device(on), pointer(on->Allocate(bytes, "values of a type")) {}
  ~Array() { device->Free(pointer); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Device* device;
  DevicePtr pointer;
};

class DeviceEvaluator final : public TypeEvaluator {
 public:
  DeviceEvaluator(Device* device, const TypeInfo& info) : device_(device) {
    std::set<std::string> included;
    ProgramText text = ProgramBuilder(device, "type " + info.name)
                           .Define("TO_FLOAT(code)", "to_float_" + info.word + "(code)")
                           .Define("FROM_FLOAT(v)", "from_float_" + info.word + "(v)")
                           .Body("quant/type_values")
                           .Text();
    // The functions come before the body, which calls them.
    text.source.insert(text.source.find("#line 1 \"kernels/quant/type_values.h\""),
                       CustomFunctions(info, &included));
    const auto program = device->Build(text);
    values_ = program->CreateKernel("type_values");
    codes_ = program->CreateKernel("type_codes");
  }
  void Values(const uint32_t* codes, float* values, size_t count) override {
    Launch(values_.get(), codes, values, count);
  }
  void Codes(const float* values, uint32_t* codes, size_t count) override {
    Launch(codes_.get(), values, codes, count);
  }

 private:
  void Launch(Kernel* kernel, const void* source, void* target, size_t count) {
    const auto n = static_cast<int64_t>(count);
    if (n == 0) return;
    const Array from(device_, 4 * n), to(device_, 4 * n);
    device_->Upload(from.pointer, source, 4 * n);
    kernel->Launch(n, {n, from.pointer.ReadOnly(), to.pointer});
    device_->Download(target, to.pointer, 4 * n);
  }

  Device* device_;
  std::unique_ptr<Kernel> values_, codes_;
};

}  // namespace

std::unique_ptr<TypeEvaluator> TypeEvaluator::Make(const TypeInfo& info) {
  if (auto compiled = Compile(info)) return compiled;
  for (Device* device : Runtime::Get().devices()) {
    return std::make_unique<DeviceEvaluator>(device, info);
  }
  CAFFE_THROW("data type '", info.name, "': its texts need a C++ compiler (", Compilers()[0],
              ") or an OpenCL or CUDA device; there is none. caffe.register_type also takes ",
              "functions of Python, and RegisterType those of C++");
}

}  // namespace caffe
