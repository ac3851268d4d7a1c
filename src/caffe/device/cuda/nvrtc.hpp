#pragma once

#include <string>
#include <vector>

#include "caffe/device/dynamic_library.hpp"
#include "caffe/device/program.hpp"

namespace caffe::cuda {

// NVRTC's functions, declared here, so that no header of the toolkit is needed.
struct Nvrtc {
  using Program = struct _nvrtcProgram*;
  static constexpr int kCompilationError = 6;

  // Returns null and the reason if there is none. Opened once. Among several versions one that is
  // not newer than the driver is chosen, because a driver refuses machine code of a later toolkit.
  static const Nvrtc* Find(std::string* why);

  const char* (*GetErrorString)(int) = nullptr;
  int (*Version)(int*, int*) = nullptr;
  int (*GetNumSupportedArchs)(int*) = nullptr;
  int (*GetSupportedArchs)(int*) = nullptr;
  int (*CreateProgram)(Program*, const char*, const char*, int, const char* const*,
                       const char* const*) = nullptr;
  int (*DestroyProgram)(Program*) = nullptr;
  int (*CompileProgram)(Program, int, const char* const*) = nullptr;
  int (*GetProgramLogSize)(Program, size_t*) = nullptr;
  int (*GetProgramLog)(Program, char*) = nullptr;
  int (*GetCUBINSize)(Program, size_t*) = nullptr;
  int (*GetCUBIN)(Program, char*) = nullptr;
  int (*GetPTXSize)(Program, size_t*) = nullptr;
  int (*GetPTX)(Program, char*) = nullptr;

  std::string version;                      // "13.0"
  std::vector<int> supported_capabilities;  // 75, 80, …

  // The target for a device of this capability (90 for 9.0): "sm_90", or PTX for the nearest lower
  // one, "compute_80", if this NVRTC does not support it yet.
  std::string TargetFor(int capability) const;
};

// The options of a compilation: the project's own, followed by text.options.
std::vector<std::string> NvrtcOptions(const ProgramText& text, const std::string& architecture);

// The error message for a text that does not compile: program, target, reason, the lines around the
// first error, and the compiler's log.
std::string BuildErrorText(const ProgramText& text, const std::string& target,
                           const std::string& reason, const std::string& log);

struct CompileResult {
  std::string binary;  // empty after a failure
  std::string log;
  std::string error;      // the message to throw; empty after a success
  bool rejected = false;  // the text has an error, so compiling it will fail again
};
CompileResult Compile(const Nvrtc& nvrtc, const ProgramText& text, const std::string& architecture);

}  // namespace caffe::cuda
