#pragma once

#include <string>

#include "caffe/device/device.hpp"

namespace caffe {

class SolverParameter;

// The device that `-gpu` names (a number, a name, cpu, or all where there is one); without the flag
// that of the solver's solver_mode and device_id, where they are given; else the best one. Becomes
// the thread's default device and is logged. Throws if the named device is not there, and for
// several devices. solver_mode: GPU without a GPU is a warning, and the CPU.
Device* ChooseDevice(const std::string& gpu, const SolverParameter* solver = nullptr);

}  // namespace caffe
