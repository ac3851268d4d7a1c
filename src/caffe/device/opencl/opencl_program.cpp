#include "caffe/device/opencl/opencl_program.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/opencl/opencl_device.hpp"
#include "caffe/device/opencl/opencl_kernel.hpp"
#include "caffe/device/opencl/pocl_cache.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/device/source_excerpt.hpp"

namespace caffe {
namespace {

// A net that only runs forward never launches its backward kernels. After this many waits without a
// first launch of a kernel, no further one is expected.
constexpr int kPatience = 8;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string KernelNames(const ProgramText& text) {
  std::string names;
  for (const KernelSignature& kernel : text.kernels) {
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  return names;
}

std::string Failure(const char* call, cl_int code) {
  return Concat(call, " failed: ", opencl::ErrorName(code), " (", code, ")");
}

// Index is i64 unless the text defines it before; i64 allows launches beyond 2^31 work items.
bool HasWideIndex(const ProgramText& text) {
  return text.source.find("#define Index i32") == std::string::npos &&
         text.options.find("Index=i32") == std::string::npos;
}

}  // namespace

OpenClProgram::OpenClProgram(OpenClDevice* device, const ProgramText& text)
    : device_(device),
      device_alive_(device->alive()),
      where_(device->where() + ", program \"" + text.name + "\""),
      device_name_(device->info().name),
      wide_index_(HasWideIndex(text)) {
  text_.name = text.name;
  text_.types = text.types;
  text_.kernels = text.kernels;
  text_.folds = text.folds;
  const cl_command_queue queue = static_cast<cl_command_queue>(device->default_stream()->native());
  opencl::Check(clRetainCommandQueue(queue), "clRetainCommandQueue", where_);
  queue_.reset(queue);
}

std::shared_ptr<OpenClProgram> OpenClProgram::Make(OpenClDevice* device, const ProgramText& text,
                                                   bool use_cache) {
  std::shared_ptr<OpenClProgram> program(new OpenClProgram(device, text));
  std::string key;
  if (use_cache) {
    ProgramCache& cache = Runtime::Get().program_cache();
    key = CacheKey({text.source, text.options, "opencl", device->identity()});
    if (const auto entry = cache.Find(key)) {
      if (entry->refused) {
        program->ThrowBuildFailure(text, "the program cache has stored that it does not compile",
                                   entry->build_log);
      }
      if (program->Load(entry->binary, text.options)) {
        log::Debug(Concat(program->where_, ": loaded from the program cache"));
        return program;
      }
      program->text_.kernels = text.kernels;
      log::Info(Concat(program->where_, ": the cached binary does not load, compiling"));
      cache.Remove(key);
    }
  }
  program->Compile(text, key);
  if (use_cache) {
    program->key_ = key;
    if (!device->takes_binary_late()) program->Store();
  }
  return program;
}

bool OpenClProgram::Load(const std::string& binary, const std::string& options) {
  const cl_device_id id = device_->id();
  const size_t size = binary.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  opencl::Handle<cl_program> program(
      clCreateProgramWithBinary(device_->context(), 1, &id, &size, &bytes, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return false;
  if (clBuildProgram(program.get(), 1, &id, BuildOptions(options).c_str(), nullptr, nullptr) !=
      CL_SUCCESS) {
    return false;
  }
  program_ = std::move(program);
  try {
    KeepExistingKernels();
  } catch (const Error&) {
    return false;
  }
  return !text_.kernels.empty();
}

// Compilers print the number of warnings to stderr, whatever the log's level is.
std::string OpenClProgram::BuildOptions(const std::string& options) { return options + " -w"; }

void OpenClProgram::KeepExistingKernels() {
  size_t size = 0;
  opencl::Check(clGetProgramInfo(program_.get(), CL_PROGRAM_KERNEL_NAMES, 0, nullptr, &size),
                "clGetProgramInfo(CL_PROGRAM_KERNEL_NAMES)", where_);
  std::string names(size, '\0');
  opencl::Check(
      clGetProgramInfo(program_.get(), CL_PROGRAM_KERNEL_NAMES, size, names.data(), nullptr),
      "clGetProgramInfo(CL_PROGRAM_KERNEL_NAMES)", where_);
  names = ";" + std::string(names.c_str()) + ";";
  std::erase_if(text_.kernels, [&](const KernelSignature& kernel) {
    return names.find(";" + kernel.name + ";") == std::string::npos;
  });
}

void OpenClProgram::Compile(const ProgramText& text, const std::string& refusal_key) {
  device_->CountBuild();
  const cl_device_id id = device_->id();
  const char* source = text.source.data();
  const size_t size = text.source.size();
  const double start = Now();
  cl_int code = CL_SUCCESS;
  program_.reset(clCreateProgramWithSource(device_->context(), 1, &source, &size, &code));
  if (code != CL_SUCCESS) {
    ThrowBuildFailure(text, Failure("clCreateProgramWithSource", code), "");
  }
  code =
      clBuildProgram(program_.get(), 1, &id, BuildOptions(text.options).c_str(), nullptr, nullptr);
  build_seconds_ = Now() - start;
  build_log_ = BuildLog();
  if (code == CL_SUCCESS) {
    KeepExistingKernels();
    log::Debug(Concat(where_, ": compiled in ", build_seconds_, " s"));
    return;
  }
  // Only the compiler's verdict is stored, not a failure for lack of disk space or memory.
  if (code == CL_BUILD_PROGRAM_FAILURE && !refusal_key.empty() && FirstErrorPlace(build_log_)) {
    ProgramCache::Entry entry;
    entry.refused = true;
    entry.build_log = build_log_;
    entry.build_seconds = build_seconds_;
    Runtime::Get().program_cache().Store(refusal_key, device_name_, text.name, entry);
  }
  ThrowBuildFailure(text, Failure("clBuildProgram", code), build_log_);
}

void OpenClProgram::ThrowBuildFailure(const ProgramText& text, const std::string& reason,
                                      const std::string& log) const {
  std::string kernel, excerpt, advice, cause;
  if (const auto place = FirstErrorPlace(log)) {
    std::vector<std::string> names;
    for (const KernelSignature& signature : text.kernels) names.push_back(signature.name);
    const SourceExcerpt around = ExcerptAround(text.source, *place, names);
    kernel = around.kernel;
    if (!around.lines.empty()) {
      excerpt = Concat("\n", around.place.file, ":", around.place.line, ":\n", around.lines);
    }
  } else if (log.find("error:") == std::string::npos) {
    if (log.empty()) {
      advice =
          Concat("the driver gave no log: ", device_->info().platform, ", ", device_->info().driver,
                 "; `caffe device_query --self-test` shows what else fails");
    }
    if (device_->info().platform == opencl::kPocl) {
      const opencl::PoclFailure failure = opencl::ExplainPoclFailure();
      if (!failure.cause.empty()) cause = "; " + failure.cause;
      advice += "\n" + failure.advice;
    }
  }
  CAFFE_THROW(where_, ", ", kernel.empty() ? "kernels " + KernelNames(text) : "kernel " + kernel,
              ": does not build (", reason, cause, ")\noptions: ", text.options, "\n", log, excerpt,
              advice);
}

std::string OpenClProgram::BuildLog() const {
  size_t size = 0;
  std::string log;
  if (clGetProgramBuildInfo(program_.get(), device_->id(), CL_PROGRAM_BUILD_LOG, 0, nullptr,
                            &size) == CL_SUCCESS) {
    log.resize(size);
    clGetProgramBuildInfo(program_.get(), device_->id(), CL_PROGRAM_BUILD_LOG, size, log.data(),
                          nullptr);
  }
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

std::string OpenClProgram::Binary() const {
  size_t size = 0;
  opencl::Check(
      clGetProgramInfo(program_.get(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr),
      "clGetProgramInfo(CL_PROGRAM_BINARY_SIZES)", where_);
  std::string binary(size, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(binary.data());
  opencl::Check(
      clGetProgramInfo(program_.get(), CL_PROGRAM_BINARIES, sizeof bytes, &bytes, nullptr),
      "clGetProgramInfo(CL_PROGRAM_BINARIES)", where_);
  return binary;
}

std::unique_ptr<Kernel> OpenClProgram::CreateKernel(const std::string& name) {
  const auto signature =
      std::find_if(text_.kernels.begin(), text_.kernels.end(),
                   [&](const KernelSignature& kernel) { return kernel.name == name; });
  CAFFE_CHECK(signature != text_.kernels.end(), where_, ": no kernel ", name, "; it has ",
              KernelNames(text_));
  return std::make_unique<OpenClKernel>(device_, shared_from_this(), *signature, MakeKernel(name));
}

opencl::Handle<cl_kernel> OpenClProgram::MakeKernel(const std::string& name) const {
  cl_int code = CL_SUCCESS;
  opencl::Handle<cl_kernel> handle(clCreateKernel(program_.get(), name.c_str(), &code));
  opencl::Check(code, "clCreateKernel", where_ + ", kernel " + name);
  return handle;
}

void OpenClProgram::NoteLaunch(const std::string& kernel) {
  std::lock_guard lock(mutex_);
  if (launched_.insert(kernel).second) waits_ = 0;
}

bool OpenClProgram::StoreAfterWait() noexcept {
  std::lock_guard lock(mutex_);
  if (key_.empty()) return true;
  if (launched_.empty()) return false;
  if (launched_.size() < text_.kernels.size() && ++waits_ < kPatience) return false;
  Store();
  return true;
}

void OpenClProgram::Store() noexcept {
  const std::string key = std::exchange(key_, {});
  try {
    ProgramCache::Entry entry;
    entry.binary = Binary();
    entry.build_log = build_log_;
    entry.build_seconds = build_seconds_;
    if (!entry.binary.empty()) {
      Runtime::Get().program_cache().Store(key, device_name_, text_.name, entry);
    }
  } catch (const std::exception& error) {
    try {
      log::Warning(Concat("not stored in the program cache: ", error.what()));
    } catch (...) {
    }
  }
}

void OpenClProgram::StoreNow() noexcept {
  std::lock_guard lock(mutex_);
  if (key_.empty() || launched_.empty()) return;
  opencl::CheckQuietly(clFinish(queue_.get()), "clFinish", where_);
  Store();
}

OpenClProgram::~OpenClProgram() {
  if (!device_alive_.expired() && !opencl::DriverIsGone()) StoreNow();
}

}  // namespace caffe
