#pragma once

#include <string>

namespace caffe::opencl {

// PoCL's CL_PLATFORM_NAME.
inline constexpr char kPocl[] = "Portable Computing Language";

// PoCL compiles every program by way of files in its cache folder, and fails without a useful build
// log where it cannot write them. Its folder is POCL_CACHE_DIR, else $XDG_CACHE_HOME/pocl/kcache,
// else $HOME/.cache/pocl/kcache, else a folder below /tmp.
class PoclCache {
 public:
  // To be called before OpenCL is opened. Where PoCL's folder cannot be written, a temporary one
  // takes its place (POCL_CACHE_DIR) until the process ends.
  PoclCache();
  // Says whether PoCL is there: a warning if its folder was replaced, or the replacement undone.
  void Finish(bool is_there);

 private:
  std::string unwritable_, replacement_, before_;
};

// What to say about the cache folder where PoCL does not build a program: which folder it is, and
// whether it can be written.
std::string PoclCacheAdvice();

}  // namespace caffe::opencl
