#include "commands/choose_device.hpp"

#include <algorithm>
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

std::vector<Device*> AllNamed(const std::string& gpu) {
  std::vector<Device*> devices;
  if (gpu == "all") {
    devices = AllGpus();
    CAFFE_CHECK(!devices.empty(),
                "-gpu all: no GPU was found (`caffe device_query` lists the devices)");
    return devices;
  }
  for (size_t begin = 0; begin <= gpu.size();) {
    const size_t end = std::min(gpu.find(',', begin), gpu.size());
    devices.push_back(Runtime::Get().DeviceByName(gpu.substr(begin, end - begin)));
    begin = end + 1;
  }
  return devices;
}

Device* Named(const std::string& gpu) {
  const bool one = gpu.find(',') == std::string::npos;
  const std::vector<Device*> devices = one ? AllNamed(gpu) : std::vector<Device*>();
  CAFFE_CHECK(devices.size() == 1, "Multi-GPU execution not available: -gpu ", gpu,
              " names several devices; `caffe train` alone uses several");
  return devices[0];
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

std::vector<Device*> ChooseDevices(const std::string& gpu, const SolverParameter& solver,
                                   bool in_job) {
  std::vector<Device*> devices;
  if (!gpu.empty()) {
    devices = AllNamed(gpu);
  } else if (in_job && solver.solver_mode() == SolverParameter::GPU) {
    devices = AllGpus();
  }
  if (devices.size() < 2) return {ChooseDevice(gpu, &solver)};
  std::string numbers;
  for (const Device* device : devices) {
    const int index = Runtime::Get().IndexOf(device);
    numbers += (numbers.empty() ? "" : ", ") + (index < 0 ? "CPU" : std::to_string(index));
  }
  log::Info("Using GPUs " + numbers);
  for (const Device* device : devices) {
    const int index = Runtime::Get().IndexOf(device);
    if (index >= 0) log::Info(Concat("GPU ", index, ": ", device->info().name));
  }
  return devices;
}

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
