#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace py = pybind11;

void BindLayer(py::module_& module) {
  using caffe::LayerBase;
  using caffe::LayerParameter;
  py::class_<LayerParameter>(module, "LayerParameter")
      .def_property_readonly("name", [](const LayerParameter& p) { return p.name(); })
      .def_property_readonly("type", [](const LayerParameter& p) { return p.type(); })
      .def_property_readonly("bottom_size", [](const LayerParameter& p) { return p.bottom_size(); })
      .def_property_readonly("top_size", [](const LayerParameter& p) { return p.top_size(); })
      .def("bottom",
           [](const LayerParameter& p, int i) {
             CheckIndex(i, p.bottom_size(), "layer " + p.name(), "bottom");
             return p.bottom(i);
           })
      .def("top",
           [](const LayerParameter& p, int i) {
             CheckIndex(i, p.top_size(), "layer " + p.name(), "top");
             return p.top(i);
           })
      .def("SerializeToString",
           [](const LayerParameter& p) { return py::bytes(p.SerializeAsString()); });
  py::class_<LayerBase, std::shared_ptr<LayerBase>>(module, "Layer", py::dynamic_attr())
      .def_property_readonly("type", [](const LayerBase& layer) { return layer.type(); })
      .def_property_readonly("name", [](const LayerBase& layer) { return layer.name(); })
      .def_property_readonly("layer_param", &LayerBase::layer_param,
                             py::return_value_policy::reference_internal);
  module.def(
      "layer_type_list", [] { return caffe::LayerRegistry::Get().Names(); },
      "The names of all layer types.");
}
