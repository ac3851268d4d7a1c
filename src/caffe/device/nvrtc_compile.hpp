#pragma once

#include <string>

#include "caffe/device/program.hpp"

namespace caffe {

// True if NVRTC, NVIDIA's run-time compiler for CUDA C, can be opened; else `why` (may be null)
// lists the paths that were tried. It needs no GPU and no driver. It is searched in CAFFE_NVRTC
// (the file or its folder) and in CudaLibraryPaths.
bool NvrtcAvailable(std::string* why);

// "13.0"; empty without NVRTC.
std::string NvrtcVersion();

// Compiles to machine code for "sm_80", "sm_90", "sm_90a", …; for "compute_90" to PTX, which a
// driver translates. Throws with the program, the architecture, the compiler's log and the lines
// around the first error.
std::string CompileCudaToCubin(const ProgramText& text, const std::string& architecture);

}  // namespace caffe
