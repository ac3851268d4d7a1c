#include "support/kernel_coverage.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/launch_record.hpp"
#include "support/devices.hpp"
#include "support/kernel_texts.hpp"

namespace caffe {
namespace {

// The tests that launch a body's kernels: those of the layers, unless an operator, the solver or
// something else uses it.
std::string FolderOf(const std::string& body) {
  static const std::set<std::string> library{"blas/accumulate", "blas/bias", "blas/convert",
                                             "blas/epilogue",   "blas/gemm", "blas/reduce",
                                             "blas/stages",     "quant/gemm"};
  if (library.count(body) || body.starts_with("conv/")) return "library";
  if (body.starts_with("solver/")) return "solver";
  if (body == "quant/requantize") return "device";
  if (body == "quant/min_max") return "net";
  return "layers";
}

// Variants that a kind of device never takes.
bool Takes(const Device& device, const std::string& kernel) {
  // One body for the CPU, one for devices.
  if (kernel == "stages") return device.host_accessible();
  if (kernel.starts_with("lrn_")) return device.host_accessible() == kernel.ends_with("_rows");
  if (device.host_accessible()) return !kernel.ends_with("_tiles");
  return kernel != "max_pool_forward_rows" && kernel != "max_pool_backward_rows";
}

bool HasFolder(const std::string& folder) {
  return folder == "layers" || folder == "solver" || folder == "library";
}

// Types of a body in which its kernels are to run.
std::vector<DataType> TypesOf(const std::string& body) {
  // Parameters are masters.
  const bool update = body.starts_with("solver/") && body != "solver/loss_seed";
  if (update && !BodyTypes(body).empty()) return {kFloat, kDouble};
  return BodyTypes(body);
}

}  // namespace

void BeginKernelCoverage(const std::string& folder) {
  if (HasFolder(folder)) RecordLaunches();
}

std::string MissingLaunches(const std::string& folder) {
  if (!HasFolder(folder)) return "";
  const std::set<LaunchedKernel> launched = RecordedLaunches();
  const auto any = [&](const auto& condition) {
    return std::any_of(launched.begin(), launched.end(), condition);
  };
  const std::vector<Device*>& devices = TestDevices();
  const bool only_cpu = std::all_of(devices.begin(), devices.end(),
                                    [](const Device* device) { return device->host_accessible(); });
  std::string missing;
  for (const std::string& body : KernelBodies()) {
    if (FolderOf(body) != folder) continue;
    const std::vector<DataType> types = TypesOf(body);
    for (const KernelSignature& kernel : ParseKernelHeads(body, KernelText(body))) {
      if (folder == "library") {
        // Operators choose among them by device and type; on the CPU libraries do most.
        if (!only_cpu && !any([&](const auto& l) { return l.kernel == kernel.name; })) {
          missing += Concat(kernel.name, " (", body, ")\n");
        }
        continue;
      }
      bool taken = false;
      for (const Device* device : devices) {
        const std::string& id = device->info().id;
        if (!Takes(*device, kernel.name)) continue;
        taken = true;
        if (!any([&](const auto& l) { return l.kernel == kernel.name && l.device == id; })) {
          missing += Concat(kernel.name, " (", body, ") on ", id, "\n");
        }
      }
      // There is no gradient of codes.
      const bool gradient = kernel.name.find("_backward") != std::string::npos;
      for (DataType type : types) {
        if (!taken || (gradient && type.is_quantized())) continue;
        if (!any([&](const auto& l) {
              return l.kernel == kernel.name && (l.types.compute == type || l.types.in == type);
            })) {
          missing += Concat(kernel.name, " (", body, ") in ", type.name(), "\n");
        }
      }
    }
  }
  return missing;
}

}  // namespace caffe
