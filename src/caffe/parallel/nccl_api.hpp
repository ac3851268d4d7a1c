#pragma once

#include <cstddef>
#include <string>

namespace caffe::nccl {

// The enumerators and the type of nccl.h that are used here: no header of NCCL is needed to build.
// tests/library/vendor_constants_test.cpp compares them.
constexpr int kHalf = 6, kFloat = 7, kDouble = 8, kBfloat16 = 9, kSum = 0;
constexpr int kSuccess = 0, kInProgress = 7;
struct UniqueId {
  char bytes[128];
};
using Comm = void*;

// The functions of libnccl.so.2, which is opened when they are first needed.
struct Api {
  int (*GetVersion)(int*);
  int (*GetUniqueId)(UniqueId*);
  int (*CommInitRank)(Comm*, int, UniqueId, int);
  int (*CommDestroy)(Comm);
  int (*CommAbort)(Comm);
  int (*AllReduce)(const void*, void*, size_t, int, int, Comm, void*);
  int (*ReduceScatter)(const void*, void*, size_t, int, int, Comm, void*);
  int (*AllGather)(const void*, void*, size_t, int, Comm, void*);
  const char* (*GetErrorString)(int);
  const char* (*GetLastError)(Comm);

  // Throws, with the name of the call, unless the status is kSuccess.
  void Check(int status, const char* call) const;
};

// Null if the library cannot be opened; `why` then gets the reason.
const Api* Find(std::string* why = nullptr);

}  // namespace caffe::nccl
