#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/proto_io.hpp"

namespace py = pybind11;

namespace {

// The bytes of a Python message, which must be of the type `wanted`.
std::string Serialized(const py::object& object, const char* wanted) {
  if (py::hasattr(object, "DESCRIPTOR")) {
    const auto given = object.attr("DESCRIPTOR").attr("name").cast<std::string>();
    if (given != wanted)
      throw py::type_error(caffe::Concat("expected a ", wanted, ", not a ", given));
  }
  return object.attr("SerializeToString")().cast<py::bytes>();
}

}  // namespace

bool IsMessage(const py::object& object) { return py::hasattr(object, "SerializeToString"); }

std::string ToPath(const py::object& object) {
  return py::module_::import("os").attr("fspath")(object).cast<std::string>();
}

caffe::NetParameter ToNetParameter(const py::object& object) {
  if (py::isinstance<caffe::NetParameter>(object)) return object.cast<caffe::NetParameter>();
  return caffe::ParseNetParameter(Serialized(object, "NetParameter"), "the net's message");
}

caffe::SolverParameter ToSolverParameter(const py::object& object) {
  if (py::isinstance<caffe::SolverParameter>(object)) {
    return object.cast<caffe::SolverParameter>();
  }
  return caffe::ParseSolverParameter(Serialized(object, "SolverParameter"), "the solver's message");
}

void BindParameters(py::module_& module) {
  using caffe::NetParameter;
  using caffe::NetState;
  using caffe::SolverParameter;
  py::class_<NetState>(module, "NetState",
                       "Phase, level and stages of a net, which select its layers; the fields are\n"
                       "those of caffe.proto.")
      .def(py::init<>())
      .def_property(
          "phase", [](const NetState& s) { return static_cast<int>(s.phase()); },
          [](NetState& s, int phase) {
            CAFFE_CHECK(caffe::Phase_IsValid(phase), "phase is caffe.TRAIN or caffe.TEST, not ",
                        phase);
            s.set_phase(static_cast<caffe::Phase>(phase));
          })
      .def_property(
          "level", [](const NetState& s) { return s.level(); },
          [](NetState& s, int level) { s.set_level(level); })
      .def("stage_size", [](const NetState& s) { return s.stage_size(); })
      .def("get_stage",
           [](const NetState& s, int i) {
             CheckIndex(i, s.stage_size(), "the state", "stage");
             return s.stage(i);
           })
      .def("add_stage", [](NetState& s, const std::string& stage) { s.add_stage(stage); })
      .def("set_stage",
           [](NetState& s, int i, const std::string& stage) {
             CheckIndex(i, s.stage_size(), "the state", "stage");
             s.set_stage(i, stage);
           })
      .def("clear_stage", [](NetState& s) { s.clear_stage(); });
  py::class_<NetParameter>(module, "NetParameter",
                           "The net of a caffe.SolverParameter. To write a net, use\n"
                           "caffe_pb2.NetParameter or caffe.NetSpec.")
      .def(py::init<>())
      .def_property(
          "force_backward", [](const NetParameter& p) { return p.force_backward(); },
          [](NetParameter& p, bool value) { p.set_force_backward(value); })
      .def_property(
          "name", [](const NetParameter& p) { return p.name(); },
          [](NetParameter& p, const std::string& name) { p.set_name(name); })
      .def_property(
          "state", [](NetParameter& p) { return p.mutable_state(); },
          [](NetParameter& p, const NetState& state) { *p.mutable_state() = state; },
          py::return_value_policy::reference_internal)
      .def("SerializeToString",
           [](const NetParameter& p) { return py::bytes(p.SerializeAsString()); });

  py::class_<SolverParameter> solver(
      module, "SolverParameter", "The settings of a solver; the fields are those of caffe.proto.");
  solver.def(py::init<>());
#define FIELD(field, Type)                                        \
  solver.def_property(                                            \
      #field, [](const SolverParameter& p) { return p.field(); }, \
      [](SolverParameter& p, Type value) { p.set_##field(value); })
  FIELD(base_lr, float);
  FIELD(max_iter, int);
  FIELD(lr_policy, const std::string&);
  FIELD(gamma, float);
  FIELD(power, float);
  FIELD(momentum, float);
  FIELD(momentum2, float);
  FIELD(delta, float);
  FIELD(rms_decay, float);
  FIELD(weight_decay, float);
  FIELD(display, int);
  FIELD(average_loss, int);
  FIELD(iter_size, int);
  FIELD(clip_gradients, float);
  FIELD(random_seed, int64_t);
  FIELD(regularization_type, const std::string&);
  FIELD(stepsize, int);
  FIELD(snapshot, int);
  FIELD(snapshot_prefix, const std::string&);
  FIELD(snapshot_after_train, bool);
  FIELD(test_interval, int);
  FIELD(test_initialization, bool);
  FIELD(type, const std::string&);
  FIELD(net, const std::string&);
  FIELD(train_net, const std::string&);
  FIELD(layer_wise_reduce, bool);
  FIELD(debug_info, bool);
  FIELD(test_compute_loss, bool);
  FIELD(strict_weights, bool);
#undef FIELD
#define LIST(field, Type)                                             \
  solver.def_property(                                                \
      #field,                                                         \
      [](const SolverParameter& p) {                                  \
        return std::vector<Type>(p.field().begin(), p.field().end()); \
      },                                                              \
      [](SolverParameter& p, const std::vector<Type>& values) {       \
        p.clear_##field();                                            \
        for (const Type& value : values) p.add_##field(value);        \
      })
  LIST(test_iter, int);
  LIST(test_net, std::string);
  LIST(stepvalue, int);
  LIST(weights, std::string);
#undef LIST
  solver.def_property(
      "snapshot_format", [](const SolverParameter& p) { return p.snapshot_format(); },
      [](SolverParameter& p, caffe::SolverParameter_SnapshotFormat value) {
        p.set_snapshot_format(value);
      });
  solver.def_property(
      "net_param", [](SolverParameter& p) { return p.mutable_net_param(); },
      [](SolverParameter& p, const py::object& net) {
        *p.mutable_net_param() = ToNetParameter(net);
      },
      py::return_value_policy::reference_internal);
  solver.def_property(
      "train_state", [](SolverParameter& p) { return p.mutable_train_state(); },
      [](SolverParameter& p, const caffe::NetState& state) { *p.mutable_train_state() = state; },
      py::return_value_policy::reference_internal);
  solver.def("SerializeToString",
             [](const SolverParameter& p) { return py::bytes(p.SerializeAsString()); });
}
