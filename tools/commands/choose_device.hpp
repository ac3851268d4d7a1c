#pragma once

#include <string>

#include "caffe/device/device.hpp"

namespace caffe {

class SolverParameter;

// The device of `-gpu` (a number, a name, cpu, or all if there is one GPU); without the flag that
// of the solver's solver_mode and device_id, if they are given; else the best one. Makes it the
// thread's default device and logs it. Throws if the device does not exist and if several are
// named. solver_mode: GPU without a GPU is a warning and selects the CPU.
Device* ChooseDevice(const std::string& gpu, const SolverParameter* solver = nullptr);

}  // namespace caffe
