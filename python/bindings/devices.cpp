#include <pybind11/stl.h>

#include <optional>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/log_settings.hpp"
#include "caffe/device/freed_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer.hpp"
#include "gil.hpp"

namespace py = pybind11;

namespace {

using caffe::Device;
using caffe::Runtime;

// The GPU of the last set_device, which set_mode_gpu selects again after set_mode_cpu.
thread_local Device* chosen_device = nullptr;
thread_local int64_t next_seed = -1;
thread_local int solver_count = 1, solver_rank = 0;
thread_local std::optional<caffe::log::RankScope> rank_scope;

void SetDevice(const py::object& which) {
  Runtime& runtime = Runtime::Get();
  Device* device = ToDevice(which, "set_device");
  chosen_device = device;
  runtime.SetDefaultDevice(device);
}

void SetModeGpu() {
  Runtime& runtime = Runtime::Get();
  Device* device = chosen_device ? chosen_device : runtime.BestDevice();
  if (!chosen_device && device == runtime.cpu()) {
    caffe::log::WarnOnce("set_mode_gpu: no GPU was found; using the CPU");
  }
  runtime.SetDefaultDevice(device);
}

int EnumerateDevices(bool silent) {
  const auto& devices = Runtime::Get().devices();
  if (!silent) {
    for (size_t i = 0; i < devices.size(); ++i) {
      const caffe::DeviceInfo& info = devices[i]->info();
      py::print(caffe::Concat(i, "  ", info.id, "  ", info.name, "  ", info.driver));
    }
  }
  return static_cast<int>(devices.size());
}

// Numbers as printed by `caffe device_query`. The CPU's number is found without opening a driver.
int NumberOf(const Device& device) {
  if (device.backend() == "cpu") return -1;
  const auto& devices = Runtime::Get().devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i] == &device) return static_cast<int>(i);
  }
  return -1;
}

std::vector<Device*> AllDevices() {
  Runtime& runtime = Runtime::Get();
  std::vector<Device*> all(runtime.devices().begin(), runtime.devices().end());
  all.push_back(runtime.cpu());
  return all;
}

}  // namespace

Device* ToDevice(const py::object& which, const std::string& what) {
  Runtime& runtime = Runtime::Get();
  if (py::isinstance<Device>(which)) return which.cast<Device*>();
  if (py::isinstance<py::str>(which)) return runtime.DeviceByName(which.cast<std::string>());
  const int64_t number =
      ToInteger(which, what + ": the device",
                "a name ('cpu', 'cuda:0') or a number as printed by caffe device_query");
  // A number beyond int is not a device either: the error lists the devices.
  return runtime.DeviceByName(std::to_string(number));
}

caffe::Replica SolverReplica() { return {solver_rank, solver_count}; }

int64_t NextSeed() { return next_seed < 0 ? -1 : next_seed++; }

void BindDevices(py::module_& module) {
  py::class_<Device, std::unique_ptr<Device, py::nodelete>>(
      module, "Device", "A device: the CPU, a GPU, or another OpenCL device. See caffe.devices().")
      .def_property_readonly(
          "name", [](const Device& device) { return device.info().id; },
          "The name that set_device takes, str: cpu, cuda:0, opencl:1.")
      .def_property_readonly("number", &NumberOf,
                             "The number that set_device takes, int; -1 for the CPU.")
      .def_property_readonly(
          "description", [](const Device& device) { return device.info().name; },
          "The vendor's name of the device, str.")
      .def_property_readonly(
          "is_gpu", [](const Device& device) { return device.info().is_gpu; },
          "False for the CPU, for OpenCL devices that run on it (PoCL), and for accelerators.")
      .def_property_readonly(
          "driver", [](const Device& device) { return device.info().driver; },
          "The driver and its version, str; empty for the CPU.")
      .def_property_readonly(
          "bytes_in_use", [](const Device& device) { return device.bytes_in_use(); },
          "Bytes of the device's memory that this process uses now, int.")
      .def_property_readonly(
          "bytes_cached", [](const Device& device) { return caffe::FreedBytes(device); },
          "Bytes that were freed and are kept for later requests, int. See release_memory().")
      .def_property_readonly(
          "bytes_peak", [](const Device& device) { return device.bytes_peak(); },
          "The largest bytes_in_use since the start, or since reset_peak().")
      .def_property_readonly(
          "counters",
          [](const Device& device) {
            const caffe::DeviceCounters counters = device.counters();
            py::dict counts;
            counts["launches"] = counters.launches;
            counts["library_calls"] = counters.library_calls;
            counts["uploads"] = counters.uploads;
            counts["upload_bytes"] = counters.upload_bytes;
            counts["downloads"] = counters.downloads;
            counts["download_bytes"] = counters.download_bytes;
            counts["copies"] = counters.copies;
            counts["builds"] = counters.builds;
            return counts;
          },
          "What the device has done since the process began, a dict of int: launches of kernels,\n"
          "library_calls, uploads from the host and downloads to it with their bytes, copies on\n"
          "the device, and builds of programs.")
      .def("reset_peak", &Device::ResetPeak, "bytes_peak becomes bytes_in_use.")
      .def("synchronize", &Device::Synchronize, py::call_guard<WithoutGil>(),
           "Waits until the device has finished the work of this thread's stream. Raises\n"
           "RuntimeError if some of it failed.");

  module.def(
      "devices", &AllDevices, py::return_value_policy::reference,
      "All devices, a list of caffe.Device by number: [0] is number 0 of `caffe device_query`,\n"
      "and the last, [-1], is the CPU, whose number is -1.");
  module.def(
      "device", [] { return Runtime::Get().default_device(); }, py::return_value_policy::reference,
      "This thread's default device, a caffe.Device: that of set_device, otherwise the best one.");
  module.def(
      "release_memory", &caffe::ReleaseMemory, py::call_guard<WithoutGil>(),
      "Returns freed memory that is kept for later requests to the system, on all devices, and\n"
      "that of the C library's allocator. What nets and arrays hold stays. Returns the bytes that\n"
      "the devices gave back, int.");
  module.def("enumerate_devices", &EnumerateDevices, py::arg("silent") = false,
             "The number of devices besides the CPU, int; prints them unless silent.");
  module.def(
      "set_device", &SetDevice, py::arg("device"),
      "Makes a device this thread's default.\n\n"
      "By name ('cpu', 'cuda:0') or by its number in `caffe device_query` (-1: the CPU). Nets\n"
      "move there at their next forward. A RuntimeError for an unknown device lists all.");
  module.def(
      "select_device", [](const py::object& device, bool) { SetDevice(device); }, py::arg("id"),
      py::arg("list_id") = true, "The OpenCL fork's name of set_device.");
  module.def(
      "set_devices",
      [](const py::sequence& devices) {
        CAFFE_CHECK(py::len(devices) > 0, "set_devices needs at least one device");
        SetDevice(devices[0]);
      },
      py::arg("devices"),
      "Calls set_device with the first device of a list, because a net runs on one device.\n"
      "RuntimeError for an empty list.");
  module.def(
      "set_mode_cpu", [] { Runtime::Get().SetDefaultDevice(Runtime::Get().cpu()); },
      "Makes the CPU this thread's default device.");
  module.def(
      "set_mode_gpu", &SetModeGpu,
      "Makes the device of the last set_device this thread's default again, otherwise the best\n"
      "GPU. Without a GPU it warns once and uses the CPU.");
  module.def(
      "set_random_seed",
      [](int64_t seed) {
        CAFFE_CHECK(seed >= 0, "a random seed must not be negative, got ", seed);
        next_seed = seed;
      },
      py::arg("seed"),
      "The seed, an int from 0 on, of the next net or solver that this thread makes; each later\n"
      "one gets the next number. A solver's own random_seed takes precedence.");
  module.def(
      "solver_count", [] { return solver_count; },
      "The value of set_solver_count, int; 1 at first.");
  module.def(
      "set_solver_count", [](int count) { solver_count = count; }, py::arg("count"),
      "How many solvers train together, each in a thread or process with its rank. Solvers that\n"
      "this thread makes later read their share of the data of phase TRAIN: with n solvers, rank "
      "r\n"
      "reads the items r, r + n, … Give all of them one random_seed. caffe.NCCL sums their "
      "gradients.");
  module.def(
      "solver_rank", [] { return solver_rank; }, "The value of set_solver_rank, int; 0 at first.");
  module.def(
      "set_solver_rank",
      [](int rank) {
        solver_rank = rank;
        rank_scope.reset();
        if (rank > 0) rank_scope.emplace(rank);
      },
      py::arg("rank"),
      "The rank of solvers that this thread makes later, 0 to solver_count() - 1: see\n"
      "set_solver_count. Random numbers such as masks of Dropout differ between ranks, initial\n"
      "values do not. Ranks other than 0 log warnings alone, in this thread.");
  module.def(
      "set_multiprocess", [](bool) {}, py::arg("multiprocess"),
      "Kept for scripts of BVLC Caffe; has no effect.");
  module.def(
      "has_nccl", [] { return true; },
      "True: caffe.NCCL sums gradients. Without NCCL's library it does so through the host.");
  module.def(
      "init_log",
      [](int level, bool) {
        using caffe::log::Level;
        caffe::log::SetLevel(level <= 0   ? Level::kInfo
                             : level == 1 ? Level::kWarning
                                          : Level::kError);
      },
      py::arg("level") = 0, py::arg("stderr") = true,
      "Writes log lines of this level (0 info, 1 warning, 2 error) and above to standard error.");
  module.def(
      "set_logging_disabled",
      [](bool disabled) {
        caffe::log::SetLevel(disabled ? caffe::log::Level::kOff : caffe::log::Level::kInfo);
      },
      py::arg("disabled") = true, "Disables the log, or enables it from level info on.");
  module.def(
      "log", [](const std::string& text) { caffe::log::Info(text); }, py::arg("text"),
      "Writes a log line of level info.");
}
