#include "caffe/device/dynamic_library.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace caffe {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Appends the matching folders, newest version first.
void AppendMatches(const std::string& pattern, std::vector<std::string>* folders) {
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    for (size_t i = matches.gl_pathc; i > 0; --i) folders->push_back(matches.gl_pathv[i - 1]);
  }
  globfree(&matches);
}

}  // namespace

std::optional<DynamicLibrary> DynamicLibrary::Open(const std::vector<std::string>& paths,
                                                   std::string* why) {
  std::string complaint;
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool has_folder = path.find('/') != std::string::npos;
    if (has_folder && !std::filesystem::exists(path, ignored)) continue;
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return DynamicLibrary(handle, path);
    }
    // An error about a file that exists is more useful than one about a missing file.
    const char* message = dlerror();
    if (message && (complaint.empty() || has_folder)) complaint = message;
  }
  if (why) *why = complaint.empty() ? "no such file" : complaint;
  return std::nullopt;
}

void* DynamicLibrary::Symbol(const char* name) const { return dlsym(handle_, name); }

std::string DynamicLibrary::FolderOf(const void* symbol) const {
  Dl_info info{};
  if (!symbol || dladdr(symbol, &info) == 0 || !info.dli_fname) return "";
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

std::vector<std::string> CudaLibraryPaths(const std::vector<std::string>& names) {
  std::vector<std::string> given, folders, paths;
  std::istringstream list(Environment("CAFFE_LIBRARY_PATH"));
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) given.push_back(folder);
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = Environment(name);
    if (home.empty()) continue;
    // Not an initializer list: GCC 12 warns about its copies (-Wstringop-overread) without a cause.
    folders.push_back(home + "/lib64");
    folders.push_back(home + "/lib");
  }
  folders.push_back("/usr/local/cuda/lib64");
  AppendMatches("/usr/local/cuda-*/lib64", &folders);
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = Environment(name);
    if (!prefix.empty()) prefixes.push_back(prefix);
  }
  if (!Environment("CONDA_PREFIX").empty()) {
    folders.push_back(Environment("CONDA_PREFIX") + "/lib");
  }
  if (!Environment("HOME").empty()) prefixes.push_back(Environment("HOME") + "/.local");
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  for (const std::string& prefix : prefixes) {
    AppendMatches(prefix + "/lib/python3*/site-packages/nvidia/*/lib", &folders);
    AppendMatches(prefix + "/lib/python3*/dist-packages/nvidia/*/lib", &folders);
  }

  auto append = [&](const std::vector<std::string>& from) {
    for (const std::string& folder : from) {
      for (const std::string& name : names) paths.push_back(folder + "/" + name);
    }
  };
  append(given);
  paths.insert(paths.end(), names.begin(), names.end());
  append(folders);
  return paths;
}

}  // namespace caffe
