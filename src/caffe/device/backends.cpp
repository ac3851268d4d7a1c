#include "caffe/device/backend.hpp"

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"

namespace caffe {
namespace {

// The least that OpenCL guarantees is 64 KB for everything; NVIDIA has no more.
constexpr int64_t kConstantBytes = 48 << 10;

}  // namespace

const std::vector<Backend>& Backends() {
  static const auto* const table = new std::vector<Backend>{
      {"cpu", &FindCpu, {}, false},
      {"cuda", &FindCudaDevices, {"dialect/cuda", "-fmad=false"}},
      {"opencl", &FindOpenClDevices, {"dialect/opencl", "-cl-std=CL1.2", kConstantBytes}},
      {"null", &FindNull, {}, false}};
  return *table;
}

const Backend& BackendNamed(std::string_view name) {
  std::string list;
  for (const Backend& backend : Backends()) {
    if (backend.name == name) return backend;
    list += (list.empty() ? "" : ", ") + backend.name;
  }
  CAFFE_THROW("there is no backend '", name, "'; there are ", list);
}

}  // namespace caffe
