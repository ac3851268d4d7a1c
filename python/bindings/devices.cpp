#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "gil.hpp"

namespace py = pybind11;

namespace {

using caffe::Device;
using caffe::Runtime;

// The GPU that set_device chose, which set_mode_gpu returns to after set_mode_cpu.
thread_local Device* chosen_device = nullptr;
thread_local int64_t next_seed = -1;
int solver_count = 1, solver_rank = 0;

Device* DeviceOf(const py::object& which) {
  Runtime& runtime = Runtime::Get();
  if (py::isinstance<py::str>(which)) return runtime.DeviceByName(which.cast<std::string>());
  const int64_t number = ToInteger(which, "set_device: the device",
                                   "a name ('cpu', 'cuda:0') or a number of caffe device_query");
  // What an int does not hold is no device either: the error lists those that are there.
  return runtime.DeviceByName(std::to_string(number));
}

void SetDevice(const py::object& which) {
  Runtime& runtime = Runtime::Get();
  Device* device = DeviceOf(which);
  chosen_device = device;
  runtime.SetDefaultDevice(device);
}

void SetModeGpu() {
  Runtime& runtime = Runtime::Get();
  Device* device = chosen_device ? chosen_device : runtime.BestDevice();
  if (!chosen_device && device == runtime.cpu()) {
    caffe::log::WarnOnce("set_mode_gpu: there is no GPU; the CPU is used");
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

}  // namespace

int64_t NextSeed() { return next_seed < 0 ? -1 : next_seed++; }

void BindDevices(py::module_& module) {
  py::class_<Device, std::unique_ptr<Device, py::nodelete>>(module, "Device", "A device.")
      .def_property_readonly(
          "name", [](const Device& device) { return device.info().id; },
          "The name that set_device takes, for example cuda:0.")
      .def_property_readonly("description", [](const Device& device) { return device.info().name; })
      .def_property_readonly("is_gpu",
                             [](const Device& device) { return !device.info().is_cpu_type; })
      .def_property_readonly("driver", [](const Device& device) { return device.info().driver; })
      .def_property_readonly("bytes_in_use",
                             [](const Device& device) { return device.bytes_in_use(); })
      .def_property_readonly("bytes_peak", [](const Device& device) { return device.bytes_peak(); })
      .def("reset_peak", &Device::ResetPeak)
      .def("synchronize", &Device::Synchronize, py::call_guard<WithoutGil>());

  module.def(
      "devices", [] { return Runtime::Get().devices(); }, py::return_value_policy::reference,
      "All devices but the CPU, in the order of their numbers.");
  module.def(
      "device", [] { return Runtime::Get().default_device(); }, py::return_value_policy::reference,
      "This thread's default device.");
  module.def("enumerate_devices", &EnumerateDevices, py::arg("silent") = false,
             "The number of devices; prints them unless silent.");
  module.def("set_device", &SetDevice, py::arg("device"),
             "Makes a device, by number or by name ('cpu', 'cuda:0'), this thread's default.");
  module.def(
      "select_device", [](const py::object& device, bool) { SetDevice(device); }, py::arg("id"),
      py::arg("list_id") = true);
  module.def("set_devices", [](const py::sequence& devices) {
    CAFFE_CHECK(py::len(devices) > 0, "set_devices needs at least one device");
    SetDevice(devices[0]);
  });
  module.def("set_mode_cpu", [] { Runtime::Get().SetDefaultDevice(Runtime::Get().cpu()); });
  module.def("set_mode_gpu", &SetModeGpu);
  module.def("set_random_seed", [](int64_t seed) {
    CAFFE_CHECK(seed >= 0, "a random seed must not be negative, got ", seed);
    next_seed = seed;
  });
  module.def("solver_count", [] { return solver_count; });
  module.def("set_solver_count", [](int count) { solver_count = count; });
  module.def("solver_rank", [] { return solver_rank; });
  module.def("set_solver_rank", [](int rank) { solver_rank = rank; });
  module.def("set_multiprocess", [](bool) {});
  module.def("has_nccl", [] { return false; });
  module.def(
      "init_log",
      [](int level, bool) {
        using caffe::log::Level;
        caffe::log::SetLevel(level <= 0   ? Level::kInfo
                             : level == 1 ? Level::kWarning
                                          : Level::kError);
      },
      py::arg("level") = 0, py::arg("stderr") = true,
      "Log lines of this level (0 info, 1 warning, 2 error) and above go to stderr.");
  module.def(
      "set_logging_disabled",
      [](bool disabled) {
        caffe::log::SetLevel(disabled ? caffe::log::Level::kOff : caffe::log::Level::kInfo);
      },
      py::arg("disabled") = true, "No log lines at all, or all from info on.");
  module.def("log", [](const std::string& text) { caffe::log::Info(text); });
}
