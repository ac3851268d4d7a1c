#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

class ProgramCache;

// Owns the devices and the program cache; the only singleton. A backend (CUDA, OpenCL) is opened
// when one of its devices, the best device or the list of devices is first requested: a program
// that names the CPU loads no driver. GPUs have the numbers of `caffe device_query`: CUDA, then
// OpenCL GPUs, then other OpenCL devices; the CPU has the name "cpu" and the number -1.
class Runtime {
 public:
  static Runtime& Get();

  // Adds a row behind the table of backend.hpp. Must not be called while other threads use the
  // runtime.
  void AddBackend(const Backend& row);

  // All but the CPU and the null device, in numbering order.
  const std::vector<Device*>& devices();
  Device* cpu();
  Device* null_device();
  // "cpu", "null", "cuda:0", "opencl:1", a number as text, or a stable name
  // (DeviceInfo::stable_id): "opencl:pocl:0", in which "opencl:" and ":0" may be left out. Throws
  // for an unknown device and lists the known ones.
  Device* DeviceByName(const std::string& name);
  Device* DeviceByIndex(int index);
  // The number of a device; -1 for the CPU and the null device.
  int IndexOf(const Device* device);
  // The best device: the first CUDA device, else the first OpenCL GPU, else the CPU. Other OpenCL
  // devices, processors and accelerators, are never chosen automatically.
  Device* BestDevice();
  // The notes of backends without devices.
  const std::vector<std::string>& notes();

  // The calling thread's default device; BestDevice() until it is set.
  Device* default_device();
  void SetDefaultDevice(Device* device);
  bool default_device_is_set() const;

  ProgramCache& program_cache();

 private:
  Runtime();
  ~Runtime();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caffe
