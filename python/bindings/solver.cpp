#include "caffe/solver/solver.hpp"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"

namespace py = pybind11;

namespace {

using caffe::Solver;

// Calls what Python added, and answers Ctrl-C where the nets do not.
class PythonCallback final : public Solver::Callback {
 public:
  void OnStart() override {
    CheckSignals();
    Call(starts);
  }
  void OnGradientsReady() override { Call(gradients); }

  std::vector<py::function> starts, gradients;

 private:
  static void Call(const std::vector<py::function>& functions) {
    if (functions.empty()) return;
    const py::gil_scoped_acquire acquire;
    for (const py::function& function : functions) function();
  }
};

// A solver as Python holds it. Name is SGD, Nesterov, …; the rule itself is the parameter's type.
struct PythonSolver : Solver {
  explicit PythonSolver(const caffe::SolverParameter& parameter) : Solver(parameter) {
    AddCallback(&callback);
    AnswerSignals(*net());
    for (const auto& test_net : test_nets()) AnswerSignals(*test_net);
  }
  virtual ~PythonSolver() = default;  // polymorphic, so that Python sees the derived class
  PythonCallback callback;
};

template <int Tag> struct TypedSolver final : PythonSolver { using PythonSolver::PythonSolver; };

caffe::SolverParameter Settings(const py::object& given) {
  caffe::SolverParameter parameter;
  if (IsMessage(given)) {
    parameter = ToSolverParameter(given);
  } else {
    parameter = caffe::ReadSolverParameter(ToPath(given));
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
        const py::gil_scoped_release release;
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
  const py::gil_scoped_release release;
  return MakeSolver(parameter);
}

void SyncViews(Solver& solver) {
  solver.net()->SyncViews();
  for (const auto& net : solver.test_nets()) net->SyncViews();
}

}  // namespace

void BindSolver(py::module_& module) {
  py::class_<PythonSolver>(module, "Solver")
      .def_property_readonly(
          "net", [](PythonSolver& solver) { return solver.net(); },
          py::return_value_policy::reference_internal)
      .def_property_readonly(
          "test_nets",
          [](const py::object& self) {
            py::list nets;
            for (const auto& net : self.cast<PythonSolver&>().test_nets()) {
              nets.append(py::cast(net.get(), py::return_value_policy::reference_internal, self));
            }
            return nets;
          })
      .def_property_readonly("iter", [](const PythonSolver& solver) { return solver.iter(); })
      .def_property_readonly("max_iter",
                             [](const PythonSolver& solver) { return solver.param().max_iter(); })
      .def_property_readonly("type", [](const PythonSolver& solver) { return solver.type(); })
      .def_property_readonly(
          "param", [](const PythonSolver& solver) { return &solver.param(); },
          py::return_value_policy::reference_internal)
      .def(
          "step",
          [](PythonSolver& solver, int64_t iterations) {
            const py::gil_scoped_release release;
            solver.Step(iterations);
            SyncViews(solver);
            return static_cast<double>(solver.SmoothedLoss());
          },
          py::arg("iterations"), "Trains; gives the smoothed loss.")
      .def(
          "solve",
          [](PythonSolver& solver, const py::object& resume) {
            const std::string path = resume.is_none() ? "" : ToPath(resume);
            const py::gil_scoped_release release;
            solver.Solve(path);
            SyncViews(solver);
          },
          py::arg("resume") = py::none())
      .def("restore",
           [](PythonSolver& solver, const py::object& given) {
             const std::string path = ToPath(given);
             const py::gil_scoped_release release;
             solver.Restore(path);
             SyncViews(solver);
           })
      .def(
          "snapshot",
          [](PythonSolver& solver) {
            solver.net()->TakeViews();
            solver.Snapshot();
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "apply_update",
          [](PythonSolver& solver) {
            solver.ApplyUpdate();
            SyncViews(solver);
          },
          py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("lr", &PythonSolver::Rate,
                             "The learning rate of the present iteration.")
      .def("share_weights",
           [](PythonSolver& solver, caffe::Net& net) { net.ShareTrainedLayersWith(*solver.net()); })
      .def("add_callback", [](PythonSolver& solver, const py::function& on_start,
                              const py::function& on_gradients_ready) {
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
