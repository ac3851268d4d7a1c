#pragma once

#include <optional>
#include <string>
#include <vector>

namespace caffe {

// A shared library that is opened at run time. It is never closed, because tables of its functions
// live as long as the process.
class DynamicLibrary {
 public:
  // Opens the first of `paths` that can be opened. The loader searches for a path without a slash;
  // a path with a slash is skipped silently if the file does not exist. On failure `why` gets the
  // loader's message.
  static std::optional<DynamicLibrary> Open(const std::vector<std::string>& paths,
                                            std::string* why);

  void* Symbol(const char* name) const;  // null if the library has no such symbol
  // Sets a pointer to a function; false if the library has no such function.
  template <class Function> bool Bind(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(Symbol(name));
    return *function != nullptr;
  }
  const std::string& path() const { return path_; }
  // The folder of the loaded file, with a slash at its end; empty if unknown.
  std::string FolderOf(const void* symbol) const;

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

// Candidate paths of libraries of the CUDA toolkit, in search order: the folders of
// CAFFE_LIBRARY_PATH (separated by colons), the loader's own search, $CUDA_HOME, $CUDA_PATH,
// /usr/local/cuda*, and the folders nvidia/*/lib of Python's packages in $VIRTUAL_ENV,
// $CONDA_PREFIX, $HOME/.local, /usr/local and /usr. Returns every folder combined with
// every name.
std::vector<std::string> CudaLibraryPaths(const std::vector<std::string>& names);

}  // namespace caffe
