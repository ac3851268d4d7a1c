#include "caffe/solver/solver.hpp"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <set>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::Solver;

// Calls what Python added, answers Ctrl-C where the nets do not, and lets in threads that wait for
// the nets.
class PythonCallback final : public Solver::Callback {
 public:
  explicit PythonCallback(std::shared_ptr<NetLock> lock) : lock_(std::move(lock)) {}
  void OnStart() override {
    CheckSignals();
    lock_->Yield();
    Call(starts);
  }
  void OnGradientsReady() override { Call(gradients); }

  std::vector<py::function> starts, gradients;

 private:
  static void Call(const std::vector<py::function>& functions) {
    if (functions.empty()) return;
    const InPython python;
    const std::vector<py::function> kept = functions;  // they may add others
    for (const py::function& function : kept) CallPython(function, py::tuple());
  }

  const std::shared_ptr<NetLock> lock_;
};

struct PythonSolver;

// All that were made, with the GIL.
std::set<const PythonSolver*>& solvers() {
  static auto* const all = new std::set<const PythonSolver*>;
  return *all;
}

// A solver as Python holds it. Name is SGD, Nesterov, …; the rule itself is the parameter's type.
struct PythonSolver : Solver {
  explicit PythonSolver(const caffe::SolverParameter& parameter) : Solver(parameter) {
    AddCallback(&callback);
    const WithGil acquire;
    for (caffe::Net* one : nets()) {
      AnswerSignals(*one);
      AddNet(*one, lock);
    }
    solvers().insert(this);
  }
  // Virtual, so that Python sees the derived class.
  virtual ~PythonSolver() {
    const WithGil acquire;
    solvers().erase(this);
    for (caffe::Net* one : nets()) RemoveNet(*one);
  }

  std::vector<caffe::Net*> nets() {
    std::vector<caffe::Net*> all = {net()};
    for (const auto& test_net : test_nets()) all.push_back(test_net.get());
    return all;
  }

  const std::shared_ptr<NetLock> lock = std::make_shared<NetLock>("the solver");
  PythonCallback callback{lock};
};

PythonSolver& Made(PythonSolver& solver) {
  if (!solvers().contains(&solver)) {
    throw py::type_error("this solver was not made: call its class's __init__ first");
  }
  return solver;
}

const PythonSolver& Made(const PythonSolver& solver) {
  return Made(const_cast<PythonSolver&>(solver));
}

template <int Tag> struct TypedSolver final : PythonSolver { using PythonSolver::PythonSolver; };

caffe::SolverParameter Settings(const py::object& given) {
  caffe::SolverParameter parameter;
  if (IsMessage(given)) {
    parameter = ToSolverParameter(given);
  } else {
    parameter = caffe::ReadSolverParameter(ToFile(given, "the solver"));
  }
  if (!parameter.has_random_seed()) {
    const int64_t seed = NextSeed();
    if (seed >= 0) parameter.set_random_seed(seed);
  }
  return parameter;
}

const char* const kTypes[] = {"SGD", "Nesterov", "Adam", "AdaGrad", "RMSProp", "AdaDelta"};

template <int Tag> void BindTyped(py::module_& module) {
  py::class_<TypedSolver<Tag>, PythonSolver>(module, (std::string(kTypes[Tag]) + "Solver").c_str())
      .def(py::init([](const py::object& given) {
        caffe::SolverParameter parameter = Settings(given);
        parameter.set_type(kTypes[Tag]);
        const WithoutGil release;
        return std::make_unique<TypedSolver<Tag>>(parameter);
      }));
}

std::unique_ptr<PythonSolver> MakeSolver(const caffe::SolverParameter& parameter) {
  const std::string& type = parameter.type();
  if (type == kTypes[0]) return std::make_unique<TypedSolver<0>>(parameter);
  if (type == kTypes[1]) return std::make_unique<TypedSolver<1>>(parameter);
  if (type == kTypes[2]) return std::make_unique<TypedSolver<2>>(parameter);
  if (type == kTypes[3]) return std::make_unique<TypedSolver<3>>(parameter);
  if (type == kTypes[4]) return std::make_unique<TypedSolver<4>>(parameter);
  if (type == kTypes[5]) return std::make_unique<TypedSolver<5>>(parameter);
  return std::make_unique<PythonSolver>(parameter);  // throws, with the known types
}

std::unique_ptr<PythonSolver> GetSolver(const py::object& given) {
  const caffe::SolverParameter parameter = Settings(given);
  const WithoutGil release;
  return MakeSolver(parameter);
}

void SyncViews(PythonSolver& solver) {
  for (caffe::Net* net : solver.nets()) net->SyncViews();
}

}  // namespace

void BindSolver(py::module_& module) {
  py::class_<PythonSolver>(module, "Solver")
      .def_property_readonly(
          "net", [](PythonSolver& solver) { return Made(solver).net(); },
          py::return_value_policy::reference_internal)
      .def_property_readonly(
          "test_nets",
          [](const py::object& self) {
            py::list nets;
            for (const auto& net : Made(self.cast<PythonSolver&>()).test_nets()) {
              nets.append(py::cast(net.get(), py::return_value_policy::reference_internal, self));
            }
            return nets;
          })
      .def_property_readonly("iter", [](const PythonSolver& solver) { return Made(solver).iter(); })
      .def_property_readonly(
          "max_iter", [](const PythonSolver& solver) { return Made(solver).param().max_iter(); })
      .def_property_readonly("type", [](const PythonSolver& solver) { return Made(solver).type(); })
      .def_property_readonly(
          "param", [](const PythonSolver& solver) { return &Made(solver).param(); },
          py::return_value_policy::reference_internal)
      .def(
          "step",
          [](PythonSolver& solver, int64_t iterations) {
            const Computing computing(*Made(solver).net());
            solver.Step(iterations);
            SyncViews(solver);
            return static_cast<double>(solver.SmoothedLoss());
          },
          py::arg("iterations"), "Trains; gives the smoothed loss.")
      .def(
          "solve",
          [](PythonSolver& solver, const py::object& resume) {
            const std::string path = resume.is_none() ? "" : ToFile(resume, "solve");
            const Computing computing(*Made(solver).net());
            solver.Solve(path);
            SyncViews(solver);
          },
          py::arg("resume") = py::none())
      .def("restore",
           [](PythonSolver& solver, const py::object& given) {
             const std::string path = ToFile(given, "restore");
             const Computing computing(*Made(solver).net());
             solver.Restore(path);
             SyncViews(solver);
           })
      .def("snapshot",
           [](PythonSolver& solver) {
             const Computing computing(*Made(solver).net());
             solver.net()->TakeViews();
             solver.Snapshot();
           })
      .def("apply_update",
           [](PythonSolver& solver) {
             const Computing computing(*Made(solver).net());
             solver.ApplyUpdate();
             SyncViews(solver);
           })
      .def_property_readonly(
          "lr", [](const PythonSolver& solver) { return Made(solver).Rate(); },
          "The learning rate of the present iteration.")
      .def("share_weights",
           [](PythonSolver& solver, caffe::Net& net) {
             const HeldNets held(net, *Made(solver).net());
             net.ShareTrainedLayersWith(*solver.net());
           })
      .def("add_callback", [](PythonSolver& solver, const py::function& on_start,
                              const py::function& on_gradients_ready) {
        Made(solver).lock->WaitUntilIdle();
        solver.callback.starts.push_back(on_start);
        solver.callback.gradients.push_back(on_gradients_ready);
      });
  BindTyped<0>(module);
  BindTyped<1>(module);
  BindTyped<2>(module);
  BindTyped<3>(module);
  BindTyped<4>(module);
  BindTyped<5>(module);
  module.def("get_solver", &GetSolver, py::arg("solver"),
             "A solver from a prototxt, a SolverParameter of ours or one of caffe_pb2.");
  module.def("get_solver_from_file", &GetSolver, py::arg("path"));
}
