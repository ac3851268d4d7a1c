#include "caffe/device/cuda/nvrtc.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/cuda/cuda_driver.hpp"
#include "caffe/device/nvrtc_compile.hpp"
#include "caffe/device/source_excerpt.hpp"

namespace caffe {
namespace cuda {
namespace {

constexpr size_t kLogLimit = 6000;

struct Found {
  const Nvrtc* nvrtc = nullptr;
  std::string why;
};

std::vector<std::string> Candidates() {
  struct Version {
    int major;
    const char* name;
  };
  const std::vector<Version> versions{
      {13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}, {0, "libnvrtc.so"}};
  int driver_version = 0;
  if (const Driver* driver = Driver::Find(nullptr)) driver->cuDriverGetVersion.Try(&driver_version);
  std::vector<std::string> fitting, newer, all;
  for (const Version& version : versions) {
    const bool fits = driver_version == 0 || version.major <= driver_version / 1000;
    (fits ? fitting : newer).push_back(version.name);
    all.push_back(version.name);
  }
  std::vector<std::string> paths;
  if (const char* given = std::getenv("CAFFE_NVRTC"); given && *given) {
    std::error_code ignored;
    if (std::filesystem::is_directory(given, ignored)) {
      for (const std::string& name : all) paths.push_back(std::string(given) + "/" + name);
    } else {
      paths.push_back(given);
    }
  }
  for (const std::vector<std::string>& names : {fitting, newer}) {
    const std::vector<std::string> more = CudaLibraryPaths(names);
    paths.insert(paths.end(), more.begin(), more.end());
  }
  return paths;
}

Found Load() {
  Found found;
  std::string complaint;
  const auto library = DynamicLibrary::Open(Candidates(), &complaint);
  if (!library) {
    found.why = "no NVRTC (libnvrtc.so.13, .12, .11.2): " + complaint +
                "; install it (pip install nvidia-cuda-nvrtc) or set CAFFE_NVRTC to its folder";
    return found;
  }
  auto* nvrtc = new Nvrtc;
  const char* missing = nullptr;
  auto bind = [&](auto& function, const char* name) {
    if (!library->Bind(name, &function) && !missing) missing = name;
  };
  bind(nvrtc->GetErrorString, "nvrtcGetErrorString");
  bind(nvrtc->Version, "nvrtcVersion");
  bind(nvrtc->GetNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  bind(nvrtc->GetSupportedArchs, "nvrtcGetSupportedArchs");
  bind(nvrtc->CreateProgram, "nvrtcCreateProgram");
  bind(nvrtc->DestroyProgram, "nvrtcDestroyProgram");
  bind(nvrtc->CompileProgram, "nvrtcCompileProgram");
  bind(nvrtc->GetProgramLogSize, "nvrtcGetProgramLogSize");
  bind(nvrtc->GetProgramLog, "nvrtcGetProgramLog");
  bind(nvrtc->GetCUBINSize, "nvrtcGetCUBINSize");
  bind(nvrtc->GetCUBIN, "nvrtcGetCUBIN");
  bind(nvrtc->GetPTXSize, "nvrtcGetPTXSize");
  bind(nvrtc->GetPTX, "nvrtcGetPTX");
  int major = 0, minor = 0;
  if (missing || nvrtc->Version(&major, &minor) != 0) {
    found.why = Concat(library->path(), " is too old: it has no ", missing ? missing : "version");
    delete nvrtc;
    return found;
  }
  nvrtc->version = Concat(major, ".", minor);
  int count = 0;
  if (nvrtc->GetNumSupportedArchs(&count) == 0 && count > 0) {
    nvrtc->supported_capabilities.resize(count);
    if (nvrtc->GetSupportedArchs(nvrtc->supported_capabilities.data()) != 0) {
      nvrtc->supported_capabilities.clear();
    }
    std::sort(nvrtc->supported_capabilities.begin(), nvrtc->supported_capabilities.end());
  }
  // NVRTC opens a second library by its bare name and has no search path: outside the loader's
  // folders (Python's packages) that fails unless the library is already loaded.
  const std::string folder = library->FolderOf(reinterpret_cast<const void*>(nvrtc->CreateProgram));
  if (!folder.empty()) {
    DynamicLibrary::Open({folder + "libnvrtc-builtins.so." + nvrtc->version}, nullptr);
  }
  log::Debug(Concat("NVRTC ", nvrtc->version, " from ", folder.empty() ? library->path() : folder));
  found.nvrtc = nvrtc;
  return found;
}

}  // namespace

std::string BuildErrorText(const ProgramText& text, const std::string& target,
                           const std::string& reason, const std::string& log) {
  std::string message =
      Concat("CUDA program '", text.name, "' does not compile for ", target, " (", reason, ")");
  if (const auto place = FirstErrorPlace(log)) {
    std::vector<std::string> names;
    for (const KernelSignature& kernel : text.kernels) names.push_back(kernel.name);
    const SourceExcerpt excerpt = ExcerptAround(text.source, *place, names);
    if (!excerpt.kernel.empty()) message += ", kernel " + excerpt.kernel;
    if (!excerpt.lines.empty()) message += Concat("\n", place->file, ":\n", excerpt.lines);
  }
  message += Concat(message.back() == '\n' ? "" : "\n", log.substr(0, kLogLimit));
  if (log.size() > kLogLimit) message += "\n... (log cut)";
  return message;
}

const Nvrtc* Nvrtc::Find(std::string* why) {
  static const Found* const found = new Found(Load());
  if (why) *why = found->why;
  return found->nvrtc;
}

std::string Nvrtc::TargetFor(int capability) const {
  const auto& known = supported_capabilities;
  if (known.empty() || std::find(known.begin(), known.end(), capability) != known.end()) {
    return Concat("sm_", capability);
  }
  int nearest = 0;
  for (int one : known) {
    if (one < capability) nearest = one;
  }
  return nearest ? Concat("compute_", nearest) : Concat("sm_", capability);
}

std::vector<std::string> NvrtcOptions(const ProgramText& text, const std::string& architecture) {
  std::vector<std::string> options;
  auto given = [&](const char* word) { return text.options.find(word) != std::string::npos; };
  if (!given("-arch=") && !given("--gpu-architecture=")) {
    options.push_back("--gpu-architecture=" + architecture);
  }
  if (!given("-fmad=") && !given("--fmad=")) options.push_back("-fmad=false");
  if (!given("-std=")) options.push_back("--std=c++17");
  if (!given("-default-device")) options.push_back("-default-device");
  std::istringstream words(text.options);
  for (std::string word; words >> word;) options.push_back(word);
  return options;
}

CompileResult Compile(const Nvrtc& nvrtc, const ProgramText& text,
                      const std::string& architecture) {
  CompileResult result;
  const std::vector<std::string> options = NvrtcOptions(text, architecture);
  std::vector<const char*> pointers;
  std::string target = architecture;
  bool ptx = false;
  for (const std::string& option : options) {
    pointers.push_back(option.c_str());
    if (option.find("-arch=") != std::string::npos ||
        option.find("--gpu-architecture=") != std::string::npos) {
      target = option.substr(option.find('=') + 1);
      ptx = target.rfind("compute_", 0) == 0;
    }
  }

  Nvrtc::Program program = nullptr;
  auto failed = [&](const char* call, int status) {
    if (status == 0) return false;
    result.rejected = status == Nvrtc::kCompilationError;
    result.error = BuildErrorText(
        text, target,
        Concat("NVRTC ", nvrtc.version, ": ", call, ": ", nvrtc.GetErrorString(status)),
        result.log);
    if (target.rfind("sm_", 0) == 0 && result.log.find("--gpu-architecture") != std::string::npos) {
      result.error += "\nNVRTC " + nvrtc.version + " compiles for";
      for (int one : nvrtc.supported_capabilities) result.error += Concat(" sm_", one);
    }
    result.binary.clear();
    if (program) nvrtc.DestroyProgram(&program);
    return true;
  };

  if (failed("nvrtcCreateProgram", nvrtc.CreateProgram(&program, text.source.c_str(),
                                                       text.name.c_str(), 0, nullptr, nullptr))) {
    return result;
  }
  const int status =
      nvrtc.CompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
  size_t size = 0;
  if (nvrtc.GetProgramLogSize(program, &size) == 0 && size > 1) {
    result.log.resize(size);
    if (nvrtc.GetProgramLog(program, result.log.data()) != 0) result.log.clear();
    while (!result.log.empty() && (result.log.back() == '\0' || result.log.back() == '\n')) {
      result.log.pop_back();
    }
  }
  if (failed("nvrtcCompileProgram", status)) return result;
  size = 0;
  if (failed(ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize",
             ptx ? nvrtc.GetPTXSize(program, &size) : nvrtc.GetCUBINSize(program, &size))) {
    return result;
  }
  result.binary.resize(size);
  if (failed(ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN",
             ptx ? nvrtc.GetPTX(program, result.binary.data())
                 : nvrtc.GetCUBIN(program, result.binary.data()))) {
    return result;
  }
  nvrtc.DestroyProgram(&program);
  return result;
}

}  // namespace cuda

bool NvrtcAvailable(std::string* why) { return cuda::Nvrtc::Find(why) != nullptr; }

std::string NvrtcVersion() {
  const cuda::Nvrtc* nvrtc = cuda::Nvrtc::Find(nullptr);
  return nvrtc ? nvrtc->version : "";
}

std::string CompileCudaToCubin(const ProgramText& text, const std::string& architecture) {
  std::string why;
  const cuda::Nvrtc* nvrtc = cuda::Nvrtc::Find(&why);
  CAFFE_CHECK(nvrtc, why);
  cuda::CompileResult result = cuda::Compile(*nvrtc, text, architecture);
  CAFFE_CHECK(result.error.empty(), result.error);
  return std::move(result.binary);
}

}  // namespace caffe
