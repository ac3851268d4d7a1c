#include "caffe/device/cpu/cpu_device.hpp"

#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/core/host_memory.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/cpu/host_entry.h"
#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/device/host_compiler.hpp"
#include "caffe/device/host_text.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/device/source_excerpt.hpp"
#include "caffe/device/text_kernel.hpp"

extern "C" {
extern const HostKernelEntry __start_caffe_kernels[] __attribute__((visibility("hidden")));
extern const HostKernelEntry __stop_caffe_kernels[] __attribute__((visibility("hidden")));
}

namespace caffe {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kHugePage = 2 << 20, kLargeBytes = 2 * kHugePage;
// Below this many elements a launch runs on the calling thread.
constexpr int64_t kParallelElements = 16384;

bool ProcessorHas(const std::string& level) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#if defined(__clang__)
  // clang knows no names of levels. F16C, LZCNT and MOVBE come with AVX2.
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                  __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
#else
  const bool v2 = __builtin_cpu_supports("x86-64-v2"), v3 = __builtin_cpu_supports("x86-64-v3"),
             v4 = __builtin_cpu_supports("x86-64-v4");
#endif
  return (level == "v2" && v2) || (level == "v3" && v3) || (level == "v4" && v4);
#else
  return level == "neon";
#endif
}

using KernelTable = std::map<std::string, const HostKernelEntry*>;  // "level types name"

const KernelTable& Table() {
  static const auto* const table = [] {
    auto* rows = new KernelTable;
    for (auto* row = __start_caffe_kernels; row != __stop_caffe_kernels; ++row) {
      (*rows)[std::string(row->level) + " " + row->types + " " + row->name] = row;
    }
    return rows;
  }();
  return *table;
}

std::string ChooseLevel() {
  const std::vector<std::string> levels = HostLevels();
  std::string known;
  for (const std::string& level : levels) known += (known.empty() ? "" : ", ") + level;
  CAFFE_CHECK(!levels.empty(),
              "this processor has none of the instruction levels that the library "
              "was built for; build it on this machine");
  if (const char* wanted = std::getenv("CAFFE_CPU_LEVEL")) {
    CAFFE_CHECK(std::find(levels.begin(), levels.end(), wanted) != levels.end(),
                "CAFFE_CPU_LEVEL=", wanted, ": this processor and this build have ", known);
    return wanted;
  }
  return levels.back();
}

struct Level {
  explicit Level(std::string of_name)
      : name(std::move(of_name)),
        number(name == "v2"   ? InstructionLevel::kV2
               : name == "v3" ? InstructionLevel::kV3
               : name == "v4" ? InstructionLevel::kV4
                              : InstructionLevel::kNeon) {}
  std::string name;
  InstructionLevel number;
};

Level& CurrentLevel() {
  static Level level(ChooseLevel());
  return level;
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  }
  return "processor";
}

class CpuEvent final : public Event {
 public:
  explicit CpuEvent(const Stream& stream) : Event(stream) {}
  void Wait() override {}
  double SecondsSince(Event& start) override {
    CAFFE_CHECK(SameDevice(start), "cpu: the time between events of two devices is not defined");
    return std::chrono::duration<double>(time_ - static_cast<CpuEvent&>(start).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

// Every call returns when its work is done, so there is nothing to wait for.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(Device* device) : Stream(device) {}
  ~CpuStream() override { Retire(); }
  std::unique_ptr<Event> Record(bool) override { return std::make_unique<CpuEvent>(*this); }
  void Synchronize() override {}
  void* native() const override { return nullptr; }

 protected:
  void DoWaitFor(Event&) override {}
};

// The tables, or the functions, of the type of an array; null if it is not a user's type.
const void* HostTable(const KernelParameter& parameter, const TypeTriple& types) {
  const DataType type = DeclaredType(parameter, types).value_or(kFloat);
  if (!type.is_custom()) return nullptr;
  if (!HasFunctions(type)) return TableOf(type).host_words();
  const HostTypeFunctions* functions = FunctionsOf(type).host();
  CAFFE_CHECK(
      functions, "cpu: data type '", type.name(), "' has ", type.info().bits,
      " bits, so that the CPU needs its functions compiled, and there was no C++ compiler; ",
      "install one, or set CAFFE_CXX, or use another device");
  return functions;
}

using RunHostKernel = decltype(HostKernelEntry::run);

class CpuKernel final : public Kernel {
 public:
  CpuKernel(Device* device, KernelSignature signature, const TypeTriple& types, RunHostKernel run)
      : Kernel(device, std::move(signature), types), run_(run) {
    // Each parameter has two slots: a scalar or an address, and a zero point, a table or functions.
    values_.resize(2 * signature_.parameters.size());
    for (size_t i = 0; i < signature_.parameters.size(); ++i) {
      const KernelParameter& parameter = signature_.parameters[i];
      const bool pointer = parameter.kind == KernelParameter::Kind::kIn ||
                           parameter.kind == KernelParameter::Kind::kOut;
      scalars_.push_back(pointer ? ScalarKind::kI64 : ScalarKindOf(parameter, types_));
      pointers_.push_back(&values_[2 * i]);
      if (pointer) pointers_.push_back(&values_[2 * i + 1]);
      tables_.push_back(pointer ? HostTable(parameter, types_) : nullptr);
    }
  }

 protected:
  void DoLaunch(const LaunchRange& range, const KernelArguments& arguments) override {
    WatchCores();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const KernelArgument& argument = arguments[i];
      int64_t* slot = &values_[2 * i];
      if (argument.kind == KernelArgument::Kind::kPointer) {
        char* address = argument.pointer.handle ? argument.pointer.address() : nullptr;
        std::memcpy(&slot[0], &address, sizeof(address));
        if (tables_[i]) {
          const void* const table = argument.zero == 0 ? tables_[i] : ScaledTable(i, argument.zero);
          std::memcpy(&slot[1], &table, sizeof(table));
        } else {
          std::memcpy(&slot[1], &argument.zero, sizeof(argument.zero));
        }
      } else if (argument.kind == KernelArgument::Kind::kReal &&
                 scalars_[i] == ScalarKind::kFloat) {
        // The usual kinds, without a call: a launch of few elements takes as long as its arguments.
        const auto value = static_cast<float>(argument.real);
        std::memcpy(slot, &value, sizeof(value));
      } else if (argument.kind == KernelArgument::Kind::kInteger &&
                 scalars_[i] == ScalarKind::kI64) {
        *slot = argument.integer;
      } else {
        PackScalar(argument, scalars_[i], slot);
      }
    }
    void** arguments_of = pointers_.data();
    const int64_t rows = range.rows;
    const int64_t cost = range.columns * range.cost;
    const bool parallel = rows > 1 && rows * cost >= kParallelElements * SerialFactor() &&
                          !omp_in_parallel() && omp_get_max_threads() > 1;
    if (!parallel) {
      run_({0, static_cast<long>(rows)}, arguments_of);
      return;
    }
#pragma omp parallel
    {
      // Ranges begin at multiples of 64 elements, so that threads do not share cache lines.
      const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const int64_t grain = cost == 1 ? 64 : 1;
      const int64_t blocks = (rows + grain - 1) / grain;
      const int64_t begin = std::min(rows, blocks * thread / threads * grain);
      const int64_t end = std::min(rows, blocks * (thread + 1) / threads * grain);
      if (begin < end) {
        run_({static_cast<long>(begin), static_cast<long>(end)}, arguments_of);
      }
    }
  }

  void DoLaunchGroups(const LaunchGroups&, const KernelArguments&) override {
    CAFFE_THROW("kernel ", signature_.name, " is a work-group kernel and does not run on the CPU");
  }

 private:
  // The table of a type with a scale for each blob, of the scale 2^exponent.
  const void* ScaledTable(size_t parameter, int exponent) const {
    const DataType type = *DeclaredType(signature_.parameters[parameter], types_);
    return TableOf(type).Scaled(exponent).host_words();
  }

  const RunHostKernel run_;
  std::vector<ScalarKind> scalars_;  // by parameter; not read for pointers
  std::vector<const void*> tables_;  // by parameter; of arrays of a user's type, else null
  std::vector<int64_t> values_;
  std::vector<void*> pointers_;  // into values_
};

// A program of texts of a caller, which the system's compiler has compiled.
class CompiledProgram final : public Program {
 public:
  CompiledProgram(Device* device, ProgramText text, const DynamicLibrary& library)
      : device_(device), text_(std::move(text)), library_(library) {}

  std::unique_ptr<Kernel> CreateKernel(const std::string& name) override {
    for (const KernelSignature& signature : text_.kernels) {
      if (signature.name != name) continue;
      RunHostKernel run = nullptr;
      CAFFE_CHECK(library_.Bind(HostEntryName(name).c_str(), &run), "cpu: the library of program ",
                  text_.name, " has no kernel ", name, "; `caffe cache prune --all` removes it");
      return std::make_unique<CpuKernel>(device_, signature, text_.types, run);
    }
    CAFFE_THROW("cpu: program ", text_.name, " declares no kernel ", name);
  }

 private:
  Device* device_;
  ProgramText text_;
  const DynamicLibrary library_;
};

[[noreturn]] void ThrowNotCompiled(const ProgramText& text, const HostLibrary& made) {
  std::string kernel, excerpt;
  std::vector<std::string> names;
  for (const KernelSignature& signature : text.kernels) names.push_back(signature.name);
  if (const auto place = FirstErrorPlace(made.log)) {
    const SourceExcerpt around = ExcerptAround(text.source, *place, names);
    kernel = around.kernel;
    if (!around.lines.empty()) {
      excerpt = Concat("\n", around.place.file, ":", around.place.line, ":\n", around.lines);
    }
  }
  CAFFE_THROW("cpu, program \"", text.name, "\"", kernel.empty() ? "" : ", kernel " + kernel,
              ": does not compile by ", made.compiler, "\noptions: ", text.options, "\n", made.log,
              excerpt);
}

// From the program cache or from the system's compiler.
DynamicLibrary LibraryOf(Device* device, const ProgramText& text, bool use_cache) {
  ProgramCache& cache = Runtime::Get().program_cache();
  const std::string key = CacheKey({text.source, text.options, "cpu", "host kernels 1"});
  const std::string what = "cpu, program \"" + text.name + "\"";
  if (const auto found = use_cache ? cache.Find(key) : std::nullopt) {
    return OpenHostLibrary(found->binary, what);
  }
  const std::optional<HostLibrary> made = CompileHostLibrary(text.source, text.options);
  if (!made) {
    throw NoHostCompiler(
        Concat(what, ": a kernel of a text needs a C++ compiler on the CPU, and there is no ",
               HostCompilerName(), "; install one, or set CAFFE_CXX to its command, or run the ",
               "kernel on another device, which compiles it by its driver"));
  }
  device->CountBuild();
  if (!made->compiled) ThrowNotCompiled(text, *made);
  if (use_cache) {
    ProgramCache::Entry entry;
    entry.binary = made->bytes;
    entry.build_log = made->log;
    cache.Store(key, "cpu", text.name, entry);
  }
  return OpenHostLibrary(made->bytes, what);
}

class CpuProgram final : public Program {
 public:
  CpuProgram(Device* device, ProgramText text)
      : device_(device), text_(std::move(text)), level_(HostLevel()) {}

  std::unique_ptr<Kernel> CreateKernel(const std::string& name) override {
    for (const KernelSignature& signature : text_.kernels) {
      if (signature.name != name) continue;
      const TypeTriple& types = text_.types;
      const std::string words =
          HostWord(types.compute) + "/" + HostWord(types.in) + "/" + HostWord(types.out);
      auto row = Table().find(level_ + " " + words + " " + name);
      // Bodies of the group `once` name their types themselves and have one instance.
      if (row == Table().end()) row = Table().find(level_ + " once " + name);
      CAFFE_CHECK(row != Table().end(), "cpu: program ", text_.name, " has no kernel ", name,
                  " for the types ", types.name(), " at instruction level ", level_,
                  "; see the line '//! types:' of its body");
      return std::make_unique<CpuKernel>(device_, signature, types, row->second->run);
    }
    CAFFE_THROW("cpu: program ", text_.name, " declares no kernel ", name);
  }

 private:
  Device* device_;
  ProgramText text_;
  std::string level_;
};

DeviceInfo CpuInfo() {
  DeviceInfo info;
  info.backend = "cpu";
  info.host_accessible = true;
  info.id = "cpu";
  info.name = ProcessorName();
  info.vendor = "host";
  info.platform = "host";
  info.driver = "none";
  info.architecture = HostLevel();
  info.is_cpu_type = true;
  info.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  info.compute_units = omp_get_max_threads();
  info.unified_memory = true;
  info.fp64 = true;
  info.instruction_level = HostLevel();
#if defined(__x86_64__)
  info.dp4a = __builtin_cpu_supports("avx512vnni");
#endif
  return info;
}

}  // namespace

std::vector<std::string> HostLevels() {
  std::vector<std::string> levels;
  for (const char* level : {"v2", "v3", "v4", "neon"}) {
    const bool built = std::any_of(Table().begin(), Table().end(), [&](const auto& row) {
      return row.first.rfind(std::string(level) + " ", 0) == 0;
    });
    if (built && ProcessorHas(level)) levels.push_back(level);
  }
  return levels;
}

const std::string& HostLevel() { return CurrentLevel().name; }

InstructionLevel HostLevelNumber() { return CurrentLevel().number; }

void SetHostLevel(const std::string& level) {
  const std::vector<std::string> levels = HostLevels();
  CAFFE_CHECK(std::find(levels.begin(), levels.end(), level) != levels.end(), "instruction level ",
              level, " cannot be used on this processor");
  CurrentLevel() = Level(level);
}

CpuDevice::CpuDevice() : Device(CpuInfo()), default_stream_(std::make_unique<CpuStream>(this)) {}

CpuDevice::~CpuDevice() { FreeEverything(); }

std::unique_ptr<Stream> CpuDevice::DoCreateStream() { return std::make_unique<CpuStream>(this); }

void* CpuDevice::DoAllocate(int64_t bytes) {
  // Linux overcommits memory, and kills a process that then touches it.
  if (bytes > info().memory_bytes) return nullptr;
  if (bytes < kLargeBytes) return AllocateHostMemory(bytes, kAlignment);
  // Weights that are read once in a forward are read a sixth faster from huge pages. The last part
  // of the allocation keeps small ones, so that it takes no more memory than asked for.
  void* const memory = AllocateHostMemory(bytes, kHugePage);
  if (memory) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void CpuDevice::DoFree(void* handle) noexcept { FreeHostMemory(handle); }

void CpuDevice::DoUpload(DevicePtr target, const void* source, int64_t bytes) {
  std::memcpy(target.address(), source, bytes);
}

void CpuDevice::DoDownload(void* target, DevicePtr source, int64_t bytes) {
  std::memcpy(target, source.address(), bytes);
}

void CpuDevice::DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) {
  std::memmove(target.address(), source.address(), bytes);
}

void CpuDevice::DoFill(DevicePtr target, uint8_t byte, int64_t bytes) {
  std::memset(target.address(), byte, bytes);
}

std::shared_ptr<Program> CpuDevice::DoBuild(const ProgramText& text, bool use_cache) {
  if (!text.source.empty()) {
    return std::make_shared<CompiledProgram>(this, text, LibraryOf(this, text, use_cache));
  }
  return std::make_shared<CpuProgram>(this, text);
}

BackendDevices FindCpu() {
  BackendDevices found;
  found.devices.push_back(std::make_unique<CpuDevice>());
  return found;
}

}  // namespace caffe
