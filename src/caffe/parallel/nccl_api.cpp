#include "caffe/parallel/nccl_api.hpp"

#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/device/dynamic_library.hpp"

namespace caffe::nccl {
namespace {

std::optional<Api> Load(std::string* why) {
  const auto library = DynamicLibrary::Open(CudaLibraryPaths({"libnccl.so.2"}), why);
  if (!library) return std::nullopt;
  Api api;
  const bool whole = library->Bind("ncclGetVersion", &api.GetVersion) &&
                     library->Bind("ncclGetUniqueId", &api.GetUniqueId) &&
                     library->Bind("ncclCommInitRank", &api.CommInitRank) &&
                     library->Bind("ncclCommDestroy", &api.CommDestroy) &&
                     library->Bind("ncclCommAbort", &api.CommAbort) &&
                     library->Bind("ncclAllReduce", &api.AllReduce) &&
                     library->Bind("ncclReduceScatter", &api.ReduceScatter) &&
                     library->Bind("ncclAllGather", &api.AllGather) &&
                     library->Bind("ncclGetErrorString", &api.GetErrorString) &&
                     library->Bind("ncclGetLastError", &api.GetLastError);
  if (whole) return api;
  *why = library->path() + " lacks functions of NCCL 2.13";
  return std::nullopt;
}

}  // namespace

void Api::Check(int status, const char* call) const {
  if (status == kSuccess || status == kInProgress) return;
  const char* const last = GetLastError(nullptr);
  CAFFE_THROW(call, " failed: ", GetErrorString(status), " (", status, ")",
              last && *last ? ": " : "", last ? last : "");
}

const Api* Find(std::string* why) {
  static auto* const reason = new std::string;
  static const std::optional<Api> api = Load(reason);
  if (why) *why = *reason;
  return api ? &*api : nullptr;
}

}  // namespace caffe::nccl
