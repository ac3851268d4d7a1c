#pragma once

#include <string>

namespace caffe::opencl {

// PoCL's CL_PLATFORM_NAME.
inline constexpr char kPocl[] = "Portable Computing Language";

// PoCL compiles every program through files in its cache folder, and fails without a useful build
// log if it cannot write them. Its folder is POCL_CACHE_DIR, else $XDG_CACHE_HOME/pocl/kcache, else
// $HOME/.cache/pocl/kcache, else a folder in /tmp.
class PoclCache {
 public:
  // Construct this before OpenCL is opened. If PoCL's folder cannot be written, a temporary one
  // replaces it (POCL_CACHE_DIR) until the process ends.
  PoclCache();
  // Call this when it is known whether PoCL is installed: warns if its folder was replaced, or
  // undoes the replacement.
  void Finish(bool is_there);

 private:
  std::string unwritable_, replacement_, before_;
};

// Describes the cache folder for a message about a program that PoCL does not build: its path and
// whether it can be written.
std::string PoclCacheAdvice();

}  // namespace caffe::opencl
