#pragma once

#include <optional>
#include <string>

#include "caffe/device/dynamic_library.hpp"

namespace caffe {

// The result of the system's C++ compiler for a text.
struct HostLibrary {
  std::string compiler;  // its command
  bool compiled = false;
  std::string bytes;  // of the shared library
  std::string log;    // messages
};

// The options of every text, with the instructions of the level whose host kernels run; separated
// by spaces.
std::string HostCompilerOptions();

// Compiles C++ without headers to a shared library, by CAFFE_CXX or, if it is not set, by c++, g++
// or clang++. Returns nothing if there is no such command.
std::optional<HostLibrary> CompileHostLibrary(const std::string& source,
                                              const std::string& options);

// The first command that CompileHostLibrary tries, for messages.
std::string HostCompilerName();

// Opens the bytes of a shared library, which stays in memory until the process ends. Throws with
// `what` in the message if it cannot be opened.
DynamicLibrary OpenHostLibrary(const std::string& bytes, const std::string& what);

}  // namespace caffe
