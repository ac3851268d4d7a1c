#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace caffe {
class Device;
class Net;
class NetParameter;
class SolverParameter;
}  // namespace caffe

// One function for each file of this folder: it adds its classes and functions to the module.
void BindEnums(pybind11::module_& module);
void BindDevices(pybind11::module_& module);
void BindBlob(pybind11::module_& module);
void BindLayer(pybind11::module_& module);
void BindPythonLayer(pybind11::module_& module);
void BindParameters(pybind11::module_& module);
void BindNet(pybind11::module_& module);
void BindSolver(pybind11::module_& module);
void BindTimer(pybind11::module_& module);

// A message that came as ours or as one of caffe_pb2; throws a TypeError for anything else.
caffe::NetParameter ToNetParameter(const pybind11::object& object);
caffe::SolverParameter ToSolverParameter(const pybind11::object& object);
bool IsMessage(const pybind11::object& object);

// A str or an os.PathLike as a path.
std::string ToPath(const pybind11::object& object);

// Raises what Ctrl-C left behind, if this is Python's main thread. Cheap: looks every 50 ms.
void CheckSignals();
// Makes the net's forward and backward answer Ctrl-C.
void AnswerSignals(caffe::Net& net);

// The seed for the next net of this thread, or -1: set by set_random_seed.
int64_t NextSeed();
