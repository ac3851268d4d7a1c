#pragma once

#include <pybind11/pybind11.h>

#include <map>
#include <string>
#include <vector>

namespace caffe {
class Device;
class Net;
class NetParameter;
class SolverParameter;
struct Histogram;
struct MemoryNeeds;
struct Replica;
}  // namespace caffe

// Each file of this folder has one function, which adds its classes and functions to the module.
void BindEnums(pybind11::module_& module);
void BindErrors(pybind11::module_& module);
void BindDevices(pybind11::module_& module);
void BindBlob(pybind11::module_& module);
void BindKernel(pybind11::module_& module);
void BindLayer(pybind11::module_& module);
void BindPythonLayer(pybind11::module_& module);
void BindParameters(pybind11::module_& module);
void BindNet(pybind11::module_& module);
void BindQuantize(pybind11::module_& module);
void BindSolver(pybind11::module_& module);
void BindStreams(pybind11::module_& module);
void BindTimer(pybind11::module_& module);
void BindTransform(pybind11::module_& module);
void BindTypes(pybind11::module_& module);

// Converts a message of this module or of caffe_pb2; throws a TypeError for anything else.
caffe::NetParameter ToNetParameter(const pybind11::object& object);
caffe::SolverParameter ToSolverParameter(const pybind11::object& object);
bool IsMessage(const pybind11::object& object);

// A str or an os.PathLike as a path.
std::string ToPath(const pybind11::object& object);
// A path as a str of Python, whose bytes may be invalid UTF-8.
pybind11::object PathObject(const std::string& path);
// A path, or a list or a tuple of paths.
std::vector<std::string> ToFiles(const pybind11::object& object, const std::string& what);
// ToPath for a file that `what` reads or writes; throws a ValueError that names `what` for ''.
std::string ToFile(const pybind11::object& object, const std::string& what);

// The object of caffe.transform and caffe.quantize, for messages: a net, or files of weights.
std::string NetOrWeights(const pybind11::object& net, const pybind11::object& weights);

// Converts an integer of Python or NumPy. Throws a TypeError: "<what> is 1.5 (float), not
// <wanted>".
int64_t ToInteger(const pybind11::handle& value, const std::string& what,
                  const std::string& wanted = "an integer");
// "1.5 (float)", for messages.
std::string Described(const pybind11::handle& value);
// The extents of reshape(2, 3) or reshape((2, 3)).
std::vector<int64_t> ToShape(const pybind11::args& extents, const std::string& what);
// Throws, with the name, if a str cannot hold a name of the net: it is not UTF-8.
void CheckNames(const caffe::Net& net);
// Throws an IndexError unless 0 <= index < count: "<whose> has 3 layers, there is no layer 99".
void CheckIndex(int64_t index, int64_t count, const std::string& whose, const std::string& noun);

// A net of a solver as a caffe.Net, whose methods are Python's. The owner lives as long as it.
pybind11::object NetObject(caffe::Net& net, const pybind11::object& owner);

// The dict of net.memory.
pybind11::dict MemoryDict(const caffe::MemoryNeeds& needs);
// Counts and edges by the names of blobs, as numpy.histogram returns them.
pybind11::dict HistogramDict(const std::map<std::string, caffe::Histogram>& histograms);

// Raises a pending KeyboardInterrupt if this is Python's main thread. Cheap: checks every 50 ms.
void CheckSignals();
// Lets Ctrl-C interrupt the net's forward and backward.
void AnswerSignals(caffe::Net& net);

// The device of a caffe.Device, a name or a number; `what` is the call, for messages.
caffe::Device* ToDevice(const pybind11::object& which, const std::string& what);

// caffe.NCCL: the rank of a solver among the processes that train together.
struct PythonNccl {};

// The seed for the next net of this thread, or -1: set by set_random_seed.
int64_t NextSeed();
// The replica that the nets of new solvers are: set by set_solver_rank and set_solver_count.
caffe::Replica SolverReplica();
