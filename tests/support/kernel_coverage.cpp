#include "support/kernel_coverage.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/launch_record.hpp"
#include "support/devices.hpp"
#include "support/kernel_texts.hpp"

namespace caffe {
namespace {

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

namespace {

std::string MissingLaunches(const std::string& folder, const std::set<LaunchedKernel>& launched) {
  if (!HasFolder(folder)) return "";
  const auto any = [&](const auto& condition) {
    return std::any_of(launched.begin(), launched.end(), condition);
  };
  const std::vector<Device*>& devices = TestDevices();
  const bool only_cpu = std::all_of(devices.begin(), devices.end(),
                                    [](const Device* device) { return device->host_accessible(); });
  std::string missing;
  for (const std::string& body : KernelBodies()) {
    if (BodyTests(body) != folder) continue;
    const std::vector<DataType> types = TypesOf(body);
    for (const KernelSignature& kernel : ParseKernelHeads(body, KernelText(body))) {
      if (folder == "library") {
        // Operators choose kernels by device and type; on the CPU most of the work is done by
        // libraries.
        if (!only_cpu && !any([&](const auto& l) { return l.kernel == kernel.name; })) {
          missing += Concat(kernel.name, " (", body, ")\n");
        }
        continue;
      }
      // Whether a device that runs the kernel runs tests of float kinds in this type.
      const auto tested = [&](DataType type) {
        return std::any_of(devices.begin(), devices.end(), [&](const Device* device) {
          return RunsOn(body, kernel.name, device->host_accessible()) && IsTested(*device, type);
        });
      };
      bool taken = false;
      for (const Device* device : devices) {
        const std::string& id = device->info().id;
        if (!RunsOn(body, kernel.name, device->host_accessible())) continue;
        taken = true;
        if (!any([&](const auto& l) { return l.kernel == kernel.name && l.device == id; })) {
          missing += Concat(kernel.name, " (", body, ") on ", id, "\n");
        }
      }
      // Quantized types have no gradient.
      const bool gradient = kernel.name.find("_backward") != std::string::npos;
      for (DataType type : types) {
        if (!taken || (gradient && type.is_quantized()) || !tested(type)) continue;
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

std::filesystem::path NotesOf(const std::filesystem::path& notes, const std::string& folder,
                              int shard) {
  return notes / Concat(folder, "_", shard);
}

}  // namespace

std::string MissingLaunches(const std::string& folder) {
  return MissingLaunches(folder, RecordedLaunches());
}

void ForgetLaunchesOfShard(const std::filesystem::path& notes, const std::string& folder,
                           int shard) {
  std::filesystem::remove(NotesOf(notes, folder, shard));
}

void NoteLaunchesOfShard(const std::filesystem::path& notes, const std::string& folder, int shard) {
  std::filesystem::create_directories(notes);
  std::ofstream file(NotesOf(notes, folder, shard));
  for (const auto& [device, kernel, types] : RecordedLaunches()) {
    file << device << ' ' << kernel << ' ' << types.compute.name() << ' ' << types.in.name() << ' '
         << types.out.name() << '\n';
  }
}

std::string MissingLaunchesOfShards(const std::filesystem::path& notes, const std::string& folder,
                                    int shards, std::string* absent) {
  std::set<LaunchedKernel> launched;
  for (int shard = 0; shard < shards; ++shard) {
    const std::filesystem::path path = NotesOf(notes, folder, shard);
    std::ifstream file(path);
    if (!file) *absent += Concat(absent->empty() ? "" : ", ", shard + 1);
    std::string device, kernel, compute, in, out;
    while (file >> device >> kernel >> compute >> in >> out) {
      launched.insert(
          {device, kernel, {DataTypeByName(compute), DataTypeByName(in), DataTypeByName(out)}});
    }
    std::filesystem::remove(path);
  }
  return absent->empty() ? MissingLaunches(folder, launched) : "";
}

}  // namespace caffe
