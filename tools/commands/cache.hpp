#pragma once

#include <string>
#include <vector>

namespace caffe {

// `caffe cache list | verify | prune [--max-size N[K|M|G] | --all]` on the directory of
// CAFFE_CACHE_DIR, XDG_CACHE_HOME or HOME. CAFFE_CACHE=off does not hide it, CAFFE_CACHE=ro forbids
// prune. Returns the exit status: 0, or 1 after a usage error, without a usable cache, or if verify
// found damage.
int CacheCommand(const std::vector<std::string>& arguments);

}  // namespace caffe
