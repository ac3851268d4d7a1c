#pragma once

#include <string>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

class SolverParameter;

// The devices of `-gpu` (numbers and names, separated by commas, or all: each GPU once), for `caffe
// train`; without the flag the one of ChooseDevice. A process of several of a job gets all GPUs
// then, unless solver_mode is CPU. Logs them.
std::vector<Device*> ChooseDevices(const std::string& gpu, const SolverParameter& solver,
                                   bool in_job);

// The device of `-gpu` (a number, a name, cpu, or all if there is one GPU); without the flag that
// of the solver's solver_mode and device_id, if they are given; else the best one. Makes it the
// thread's default device and logs it. Throws if the device does not exist and if several are
// named. solver_mode: GPU without a GPU is a warning and selects the CPU.
Device* ChooseDevice(const std::string& gpu, const SolverParameter* solver = nullptr);

}  // namespace caffe
