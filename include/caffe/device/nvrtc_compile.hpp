#pragma once

#include <string>

#include "caffe/device/program.hpp"

namespace caffe {

// True if NVRTC, NVIDIA's run-time compiler for CUDA C, can be opened; else `why` (may be null)
// says what was tried. No GPU and no driver is needed. It is looked for in CAFFE_NVRTC (the file,
// or the folder that holds it) and in the places of CudaLibraryPaths.
bool NvrtcAvailable(std::string* why);

// "13.0"; empty where there is no NVRTC.
std::string NvrtcVersion();

// Machine code for "sm_80", "sm_90", "sm_90a", …; for "compute_90" PTX, which a driver translates.
// Throws with the program, the architecture, the compiler's log and the lines around the first
// error.
std::string CompileCudaToCubin(const ProgramText& text, const std::string& architecture);

}  // namespace caffe
