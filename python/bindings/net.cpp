#include "caffe/net/net.hpp"

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/layers/memory_data_layer.hpp"

namespace py = pybind11;

namespace {

using caffe::Net;

std::unique_ptr<Net> MakeNet(const py::object& network, int phase, int level,
                             const py::object& stages, const py::object& weights) {
  if (phase != caffe::TRAIN && phase != caffe::TEST) {
    throw py::value_error(
        caffe::Concat("phase ", phase, " is neither caffe.TRAIN (0) nor TEST (1)"));
  }
  caffe::NetOptions options;
  options.phase = phase;
  options.level = level;
  options.seed = NextSeed();
  if (py::isinstance<py::str>(stages)) {
    options.stages = {stages.cast<std::string>()};
  } else if (!stages.is_none()) {
    for (const py::handle stage : stages) options.stages.push_back(stage.cast<std::string>());
  }
  const std::string weights_path = weights.is_none() ? "" : ToPath(weights);
  const bool message = IsMessage(network);
  caffe::NetParameter parameter;
  std::string path;
  if (message) {
    parameter = ToNetParameter(network);
  } else {
    path = ToPath(network);
  }
  const py::gil_scoped_release release;
  if (!message) parameter = caffe::ReadNetParameter(path);
  auto net = std::make_unique<Net>(parameter, options);
  AnswerSignals(*net);
  if (!weights_path.empty()) net->CopyTrainedLayersFrom(weights_path);
  return net;
}

Net::Callback WithGil(const py::function& function) {
  // Destroyed with the net, when the GIL is held; called from a forward, when it is not.
  return [function](int layer) {
    const py::gil_scoped_acquire acquire;
    function(layer);
  };
}

using Array = py::array_t<float, py::array::c_style | py::array::forcecast>;

void SetInputArrays(Net& net, const py::object& layer, const Array& data, const Array& labels) {
  auto* memory_data = dynamic_cast<caffe::MemoryData*>(layer.cast<caffe::LayerBase*>());
  CAFFE_CHECK(memory_data, "set_input_arrays needs a MemoryData layer, not ",
              layer.cast<caffe::LayerBase*>()->type());
  CAFFE_CHECK(data.ndim() > 0 && labels.size() == data.shape(0), "there are ",
              data.ndim() > 0 ? data.shape(0) : 0, " items and ", labels.size(), " labels");
  caffe::Shape item(data.shape() + 1, data.shape() + data.ndim());
  caffe::Shape wanted(memory_data->shape().begin() + 1, memory_data->shape().end());
  CAFFE_CHECK(item == wanted, "items of shape ", caffe::ShapeString(item),
              " were given, the layer wants ", caffe::ShapeString(wanted));
  // The layer reads from the arrays, and may let go of them where the GIL is not held.
  const std::shared_ptr<void> owner(new std::pair<Array, Array>(data, labels), [](void* arrays) {
    const py::gil_scoped_acquire acquire;
    delete static_cast<std::pair<Array, Array>*>(arrays);
  });
  memory_data->Reset(data.data(), labels.data(), data.shape(0), owner);
}

}  // namespace

void BindNet(py::module_& module) {
  py::class_<Net>(module, "Net", py::dynamic_attr(),
                  "A net from a prototxt or a NetParameter, on this thread's default device.")
      .def(py::init(&MakeNet), py::arg("network_file"), py::arg("phase"), py::arg("level") = 0,
           py::arg("stages") = py::none(), py::arg("weights") = py::none())
      .def(py::init([](const py::object& network, const py::object& weights, int phase) {
             if (PyErr_WarnEx(PyExc_DeprecationWarning,
                              "Net(file, weights, phase) is deprecated: use "
                              "Net(file, phase, weights=weights)",
                              1) != 0) {
               throw py::error_already_set();
             }
             return MakeNet(network, phase, 0, py::none(), weights);
           }),
           py::arg("network_file"), py::arg("weights_file"), py::arg("phase"))
      .def("_forward",
           [](Net& net, int start, int end) {
             const py::gil_scoped_release release;
             net.Forward(start, end);
             return 0;
           })
      .def(
          "_backward",
          [](Net& net, int start, int end) {
            net.TakeViews();  // a script may have changed data since the forward
            net.Backward(start, end);
          },
          py::call_guard<py::gil_scoped_release>())
      .def("reshape", &Net::Reshape, py::call_guard<py::gil_scoped_release>())
      .def("clear_param_diffs",
           [](Net& net) {
             net.ClearParamDiffs();
             net.SyncViews();
           })
      .def("copy_from",
           [](Net& net, const py::object& given) {
             const std::string path = ToPath(given);
             const py::gil_scoped_release release;
             net.CopyTrainedLayersFrom(path);
             net.SyncViews();
           })
      .def("share_with", [](Net& net, const Net& other) { net.ShareTrainedLayersWith(other); })
      .def(
          "save",
          [](Net& net, const py::object& given, bool write_diff) {
            const std::string path = ToPath(given);
            const py::gil_scoped_release release;
            net.TakeViews();
            caffe::NetParameter parameter;
            net.ToProto(&parameter, write_diff);
            caffe::WriteBinaryProto(path, parameter);
          },
          py::arg("path"), py::arg("write_diff") = false)
      .def(
          "save_hdf5",
          [](const Net& net, const py::object& path, bool write_diff) {
            net.SaveHDF5(ToPath(path), write_diff);
          },
          py::arg("path"), py::arg("write_diff") = false)
      .def("load_hdf5", [](Net& net, const py::object& path) { net.LoadHDF5(ToPath(path)); })
      .def_property_readonly("name", &Net::name)
      .def_property_readonly("layers", [](const Net& net) { return net.layers(); })
      .def_property_readonly("_blobs", [](const Net& net) { return net.blobs(); })
      .def_property_readonly("_blob_names", [](const Net& net) { return net.blob_names(); })
      .def_property_readonly("_layer_names", [](const Net& net) { return net.layer_names(); })
      .def_property_readonly("_inputs", [](const Net& net) { return net.input_blob_indices(); })
      .def_property_readonly("_outputs", [](const Net& net) { return net.output_blob_indices(); })
      .def_property_readonly("_blob_loss_weights",
                             [](const Net& net) { return net.blob_loss_weights(); })
      .def("_bottom_ids", [](const Net& net, int layer) { return net.bottom_ids(layer); })
      .def("_top_ids", [](const Net& net, int layer) { return net.top_ids(layer); })
      .def("_set_input_arrays", &SetInputArrays)
      .def_property_readonly("device", &Net::device, py::return_value_policy::reference)
      .def_property(
          "quant_mode",
          [](const Net& net) {
            return net.observe() ? caffe::CAFFE_QUANT_OBSERVE : caffe::CAFFE_QUANT_PASSIVE;
          },
          [](Net& net, caffe::QuantizerMode mode) {
            net.set_observe(mode == caffe::CAFFE_QUANT_OBSERVE);
          },
          "CAFFE_QUANT_OBSERVE collects the range of every blob in every forward.")
      .def("before_forward",
           [](Net& net, const py::function& f) { net.set_before_forward(WithGil(f)); })
      .def("after_forward",
           [](Net& net, const py::function& f) { net.set_after_forward(WithGil(f)); })
      .def("before_backward",
           [](Net& net, const py::function& f) { net.set_before_backward(WithGil(f)); })
      .def("after_backward",
           [](Net& net, const py::function& f) { net.set_after_backward(WithGil(f)); });
  module.def("_read_net", [](const py::object& path) {
    return py::bytes(caffe::ReadNetParameter(ToPath(path)).SerializeAsString());
  });
}
