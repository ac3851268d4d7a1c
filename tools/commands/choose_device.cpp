#include "commands/choose_device.hpp"

#include <set>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

// All GPUs, each physical one once.
std::vector<Device*> AllGpus() {
  std::vector<Device*> gpus;
  std::set<std::string> seen;
  for (Device* device : Runtime::Get().devices()) {
    if (!device->info().is_gpu) continue;
    const std::string& id = device->info().unique_id;
    if (id.empty() || seen.insert(id).second) gpus.push_back(device);
  }
  return gpus;
}

Device* Named(const std::string& gpu) {
  CAFFE_CHECK(gpu.find(',') == std::string::npos, "Multi-GPU execution not available: -gpu ", gpu,
              " names several devices");
  if (gpu != "all") return Runtime::Get().DeviceByName(gpu);
  const std::vector<Device*> gpus = AllGpus();
  CAFFE_CHECK(!gpus.empty(), "-gpu all: no GPU was found (`caffe device_query` lists the devices)");
  CAFFE_CHECK(gpus.size() == 1, "Multi-GPU execution not available: -gpu all names ", gpus.size(),
              " devices");
  return gpus[0];
}

Device* OfSolver(const SolverParameter& solver) {
  Runtime& runtime = Runtime::Get();
  if (solver.solver_mode() == SolverParameter::CPU) return runtime.cpu();
  if (AllGpus().empty()) {
    log::Warning("solver_mode is GPU, but no GPU was found: using the CPU");
    return runtime.cpu();
  }
  return runtime.DeviceByIndex(solver.device_id());
}

}  // namespace

Device* ChooseDevice(const std::string& gpu, const SolverParameter* solver) {
  Runtime& runtime = Runtime::Get();
  Device* device = !gpu.empty()                          ? Named(gpu)
                   : solver && solver->has_solver_mode() ? OfSolver(*solver)
                                                         : runtime.BestDevice();
  runtime.SetDefaultDevice(device);
  const int index = runtime.IndexOf(device);
  if (index < 0) {
    log::Info("Use CPU.");
  } else if (solver) {
    log::Info(Concat("Using GPUs ", index));
    log::Info(Concat("GPU ", index, ": ", device->info().name));
  } else {
    log::Info(Concat("Use GPU with device ID ", index));
  }
  log::Debug(Concat("device ", device->info().id, ": ", device->info().name));
  return device;
}

}  // namespace caffe
