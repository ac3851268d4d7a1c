#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace caffe {

class Device;

// The kernel text with which all programs of a device begin, and the options of its compiler. A
// device may add options to those of its backend.
struct Dialect {
  // A text of kernels/, without the extension. Null: the kernels are part of the library, and there
  // are no kernels of work groups.
  const char* text = nullptr;
  std::string options;
  // The most bytes that tables of users' types may take in constant memory; 0: any number.
  int64_t constant_bytes = 0;
};

// The devices of one backend. If its driver or library is missing, the list is empty and the note
// gives the reason.
struct BackendDevices {
  std::vector<std::unique_ptr<Device>> devices;
  std::string note;  // "no libcuda.so.1", …
};

// One kind of device. A new one is a folder with its `find` and a row of the table in backends.cpp.
struct Backend {
  // Its devices are called "name:0", "name:1", …, or "name" if there is always one and it has no
  // number.
  std::string name;
  // Opens the driver. It is called once, when a device of the backend is first requested.
  BackendDevices (*find)() = nullptr;
  Dialect dialect{};
  // Whether its devices are listed and numbered; the best one of them is the default device.
  bool numbered = true;
};

// All backends, in the order of their devices' numbers.
const std::vector<Backend>& Backends();
// Throws if there is none of this name, and lists them.
const Backend& BackendNamed(std::string_view name);

}  // namespace caffe
