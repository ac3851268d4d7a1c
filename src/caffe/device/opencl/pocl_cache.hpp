#pragma once

#include <string>

namespace caffe::opencl {

// PoCL's CL_PLATFORM_NAME.
inline constexpr char kPocl[] = "Portable Computing Language";

// PoCL compiles every program through files in its cache folder, loads them as libraries, and fails
// without a useful build log if it cannot write them. Its folder is POCL_CACHE_DIR, else
// $XDG_CACHE_HOME/pocl/kcache, else $HOME/.cache/pocl/kcache, else a folder in /tmp.
class PoclCache {
 public:
  // Construct this before OpenCL is opened. If PoCL's folder cannot be written, or if other users
  // can write it, a temporary one replaces it (POCL_CACHE_DIR) until the process ends.
  PoclCache();
  // Call this when it is known whether PoCL is installed: makes its folder, or warns if the
  // folder was replaced, or undoes the replacement. Throws if other users can write its folder and
  // nothing can replace it.
  void Finish(bool is_there);

 private:
  std::string problem_, replacement_, refusal_, before_;
};

// Why PoCL did not build a program, if its cache folder is the cause.
struct PoclFailure {
  std::string cause;  // that the folder cannot be written or is nearly full; empty if it is neither
  std::string advice;
};
PoclFailure ExplainPoclFailure();

}  // namespace caffe::opencl
