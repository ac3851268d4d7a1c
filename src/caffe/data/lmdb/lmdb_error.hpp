#pragma once

#include <lmdb.h>

#include <string>

#include "caffe/core/error.hpp"

namespace caffe {

// Throws "LMDB <path>: <call>: <reason>" if the call failed.
inline void CheckLmdb(int result, const char* call, const std::string& path) {
  CAFFE_CHECK(result == MDB_SUCCESS, "LMDB ", path, ": ", call, ": ", mdb_strerror(result));
}

// Takes the room of LMDB's lock file, which LMDB writes through a map of it: on a full disk that would
// end the process. Returns 0, or the reason why there is no room. Another reason, such as a missing
// permission, is left to LMDB. The file must not be open in this process.
int ReserveLockFile(const std::string& folder);

}  // namespace caffe
