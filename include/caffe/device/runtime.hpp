#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

class ProgramCache;

// Owner of the devices and of the program cache; the only singleton. A backend (CUDA, OpenCL) is
// opened when a device of it, the best device or the list of devices is first asked for: a program
// that uses the CPU by name loads no driver. GPUs are numbered as `caffe device_query` prints them: CUDA, then OpenCL GPUs, then other
// OpenCL devices; the CPU has the name "cpu" and the number -1.
class Runtime {
 public:
  static Runtime& Get();

  // All but the CPU and the null device, in numbering order.
  const std::vector<Device*>& devices();
  Device* cpu();
  Device* null_device();
  // "cpu", "null", "cuda:0", "opencl:1", or a number as text. Throws, listing what is there.
  Device* DeviceByName(const std::string& name);
  Device* DeviceByIndex(int index);
  // The number of a device; -1 for the CPU and the null device.
  int IndexOf(const Device* device);
  // The best device: the first CUDA device, else the first OpenCL GPU, else the CPU. Devices of CPU
  // type are never chosen by themselves.
  Device* BestDevice();
  // Notes of the backends that found nothing.
  const std::vector<std::string>& notes();

  // The calling thread's default device; until it is set, BestDevice().
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
