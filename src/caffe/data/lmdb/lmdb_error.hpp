#pragma once

#include <lmdb.h>

#include <string>

#include "caffe/core/error.hpp"

namespace caffe {

// Throws "LMDB <path>: <call>: <reason>" if the call failed.
inline void CheckLmdb(int result, const char* call, const std::string& path) {
  CAFFE_CHECK(result == MDB_SUCCESS, "LMDB ", path, ": ", call, ": ", mdb_strerror(result));
}

}  // namespace caffe
