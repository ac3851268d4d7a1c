#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/element_function.hpp"

namespace py = pybind11;

void BindLayer(py::module_& module) {
  using caffe::LayerBase;
  using caffe::LayerParameter;
  py::class_<LayerParameter>(module, "LayerParameter",
                             "A layer's parameters in the prototxt: layer.layer_param.")
      .def_property_readonly(
          "name", [](const LayerParameter& p) { return p.name(); }, "The layer's name, str.")
      .def_property_readonly(
          "type", [](const LayerParameter& p) { return p.type(); }, "The layer's type, str.")
      .def_property_readonly(
          "bottom_size", [](const LayerParameter& p) { return p.bottom_size(); },
          "The number of bottoms.")
      .def_property_readonly(
          "top_size", [](const LayerParameter& p) { return p.top_size(); }, "The number of tops.")
      .def(
          "bottom",
          [](const LayerParameter& p, int i) {
            CheckIndex(i, p.bottom_size(), "layer " + p.name(), "bottom");
            return p.bottom(i);
          },
          py::arg("index"), "The name of bottom `index`; IndexError beyond the last.")
      .def(
          "top",
          [](const LayerParameter& p, int i) {
            CheckIndex(i, p.top_size(), "layer " + p.name(), "top");
            return p.top(i);
          },
          py::arg("index"), "The name of top `index`; IndexError beyond the last.")
      .def(
          "SerializeToString",
          [](const LayerParameter& p) { return py::bytes(p.SerializeAsString()); },
          "The message as bytes: caffe_pb2.LayerParameter.FromString reads them.");
  py::class_<LayerBase, std::shared_ptr<LayerBase>>(
      module, "Layer", py::dynamic_attr(),
      "A layer of a net, and the base class of layers that are written in Python.\n\n"
      "layer { type: 'Python' python_param { module: 'm' layer: 'MyLayer' param_str: '…' } }\n"
      "creates an object of m.MyLayer, a subclass of caffe.Layer with the methods\n\n"
      "setup(self, bottom, top): called once, when the net is created. Reads param_str, checks\n"
      "  the number of bottoms and tops, adds parameters with self.blobs.add_blob(2, 3).\n"
      "reshape(self, bottom, top): called before every forward. Shapes the tops:\n"
      "  top[0].reshape(*bottom[0].data.shape).\n"
      "forward(self, bottom, top): reads bottom[i].data, writes top[i].data[...].\n"
      "backward(self, top, propagate_down, bottom): writes bottom[i].diff[...] from top[i].diff\n"
      "  if propagate_down[i]; adds to self.blobs[i].diff.\n\n"
      "bottom and top are lists of caffe.Blob. Python must be able to import the module\n"
      "(sys.path, PYTHONPATH). An exception of a method is raised by net.forward and\n"
      "net.backward; its message is prefixed with the layer's name.")
      .def_property_readonly(
          "type", [](const LayerBase& layer) { return layer.type(); },
          "The type, str, for example Convolution.")
      .def_property_readonly(
          "name", [](const LayerBase& layer) { return layer.name(); }, "The name, str.")
      .def_property_readonly("layer_param", &LayerBase::layer_param,
                             py::return_value_policy::reference_internal,
                             "The layer's parameters in the prototxt, a caffe.LayerParameter.")
      .def_property_readonly("_type_name",
                             [](const LayerBase& layer) { return layer.types().name(); })
      .def_property_readonly(
          "_device", [](const LayerBase& layer) { return layer.device(); },
          py::return_value_policy::reference);
  module.def(
      "layer_type_list", [] { return caffe::LayerRegistry::Get().Names(); },
      "The names of all known layer types, a sorted list of str.");
  module.def(
      "_function_layers",
      [] {
        std::vector<std::string> names;
        for (const auto kind : caffe::ElementFunction::Kinds()) {
          const auto& row = caffe::ElementFunction::RowOf(kind);
          if (!row.summary.empty()) names.push_back(row.name);
        }
        return names;
      },
      "The layers that are rows of the table of functions of one element.");
}
