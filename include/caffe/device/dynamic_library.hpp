#pragma once

#include <optional>
#include <string>
#include <vector>

namespace caffe {

// A shared library that is opened at run time. It is never closed, because tables of its functions
// live as long as the process.
class DynamicLibrary {
 public:
  // The first of `paths` that opens. A path without a slash is looked up by the loader; one with a
  // slash is skipped silently if there is no such file. On failure `why` says what the loader said.
  static std::optional<DynamicLibrary> Open(const std::vector<std::string>& paths,
                                            std::string* why);

  void* Symbol(const char* name) const;  // null if the library has no such symbol
  const std::string& path() const { return path_; }
  // The folder of the file that the loader took, with a slash at its end; empty if unknown.
  std::string FolderOf(const void* symbol) const;

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

// Where libraries of the CUDA toolkit may lie, in the order in which they are tried: the folders of
// CAFFE_LIBRARY_PATH (separated by colons), the loader's own search, $CUDA_HOME, $CUDA_PATH,
// /usr/local/cuda*, and the folders nvidia/*/lib of Python's packages in $VIRTUAL_ENV,
// $CONDA_PREFIX, ./.venv, $HOME/.local, /usr/local and /usr. Gives every folder with every name.
std::vector<std::string> CudaLibraryPaths(const std::vector<std::string>& names);

}  // namespace caffe
