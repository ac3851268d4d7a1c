#include "python_layer.hpp"

#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

using caffe::BlobBase;
using caffe::BlobVec;
using caffe::LayerBase;

namespace {

// The context of the layer that this thread is creating.
thread_local const caffe::LayerContext* present_context = nullptr;

class PresentContext {
 public:
  explicit PresentContext(const caffe::LayerContext& context) : before_(present_context) {
    present_context = &context;
  }
  ~PresentContext() { present_context = before_; }

 private:
  const caffe::LayerContext* before_;
};

py::list Blobs(const BlobVec& blobs) {
  py::list list;
  for (BlobBase* blob : blobs) list.append(py::cast(blob, py::return_value_policy::reference));
  return list;
}

// Brings the host copies that views of earlier calls show up to date.
void SyncViews(const BlobVec& blobs) {
  for (BlobBase* blob : blobs) {
    if (blob->data_memory()->has_view()) blob->data_memory()->host_data();
    if (blob->has_diff() && blob->diff_memory()->has_view()) blob->diff_memory()->host_data();
  }
}

// Marks the data that views of earlier calls may have written as written; views made during the
// call mark it themselves.
void MarkData(const BlobVec& blobs) {
  for (BlobBase* blob : blobs) {
    if (blob->data_memory()->has_view()) blob->data_memory()->MarkHostWritten();
  }
}

void MarkDiffs(const BlobVec& blobs) {
  for (BlobBase* blob : blobs) {
    if (blob->has_diff() && blob->diff_memory()->has_view()) blob->diff_memory()->MarkHostWritten();
  }
}

BlobVec Pointers(const std::vector<std::shared_ptr<BlobBase>>& blobs) {
  BlobVec pointers;
  for (const auto& blob : blobs) pointers.push_back(blob.get());
  return pointers;
}

// Prefixes the message of the pending exception with the layer's name. The exception object stays
// the same, so that an `except` clause for its type still matches.
void NameLayer(py::error_already_set& error, const std::string& where) {
  const py::object value = error.value();
  const py::tuple arguments = py::getattr(value, "args", py::tuple());
  if (py::len(arguments) == 1 && py::isinstance<py::str>(arguments[0]) &&
      !error.matches(PyExc_OSError)) {
    const std::string text = where + ": " + arguments[0].cast<std::string>();
    value.attr("args") = py::make_tuple(text);
    if (error.matches(PyExc_ImportError)) value.attr("msg") = text;  // ImportError prints its msg
  } else if (py::hasattr(value, "add_note")) {                       // Python 3.11
    value.attr("add_note")("in " + where);
  }
}

template <class Call> auto Named(const std::string& where, const Call& call) {
  try {
    return call();
  } catch (py::error_already_set& error) {
    NameLayer(error, where);
    throw;
  }
}

// self.blobs and net.layers[i].blobs: the list of the layer's parameters, which add_blob extends.
struct LayerBlobs {
  std::shared_ptr<LayerBase> layer;
  const std::vector<std::shared_ptr<BlobBase>>& list() const { return layer->blobs(); }
};

std::shared_ptr<BlobBase> BlobAt(const LayerBlobs& blobs, int64_t index) {
  const auto count = static_cast<int64_t>(blobs.list().size());
  if (index < -count || index >= count) {
    throw py::index_error(caffe::Printable(
        caffe::Concat(blobs.layer->name(), " has ", count, " blobs; there is no blob ", index)));
  }
  return blobs.list()[index < 0 ? index + count : index];
}

}  // namespace

std::shared_ptr<LayerBase> PythonLayer::MakeBase(const caffe::LayerParameter& parameter) {
  CAFFE_CHECK(present_context, "only a net can create a layer, from layer { type: 'Python' … }");
  return std::make_shared<PythonLayer>(parameter, *present_context);
}

std::shared_ptr<LayerBase> PythonLayer::Create(const caffe::LayerParameter& parameter,
                                               const caffe::LayerContext& context) {
  const InPython in_python;
  const std::string where = parameter.name() + " (Python)";
  const caffe::PythonParameter& python = parameter.python_param();
  CAFFE_CHECK(!python.module().empty() && !python.layer().empty(), where,
              ": python_param needs module and layer");
  const py::object instance = Named(where, [&] {
    const py::object made =
        py::module_::import(python.module().c_str()).attr(python.layer().c_str());
    const py::handle base = py::type::of<LayerBase>();
    CAFFE_CHECK(PyType_Check(made.ptr()) && PyObject_IsSubclass(made.ptr(), base.ptr()) == 1, where,
                ": ", python.module(), ".", python.layer(), " is not a subclass of caffe.Layer");
    const PresentContext present(context);
    return CallPython(made, py::make_tuple(py::cast(parameter, py::return_value_policy::copy)));
  });
  auto* layer = instance.cast<LayerBase*>();
  // The owner holds the instance, which holds the C++ half.
  auto* owner = new py::object(instance);
  return std::shared_ptr<LayerBase>(layer, [owner](LayerBase*) {
    if (!Py_IsInitialized()) return;  // the process is ending
    const InPython python;
    delete owner;
  });
}

void PythonLayer::Call(const char* method, const py::tuple& arguments) {
  Named(Where() + "." + method, [&] { return CallPython(self().attr(method), arguments); });
}

void PythonLayer::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  if (set_up_) return;  // moved to another device: keep what setup made
  set_up_ = true;
  const InPython python;
  Call("setup", py::make_tuple(Blobs(bottom), Blobs(top)));
}

void PythonLayer::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const InPython python;
  SyncViews(bottom);
  SyncViews(top);
  const py::handle type = py::type::handle_of(self());
  if (type.attr("reshape").is(py::type::of<LayerBase>().attr("reshape"))) {
    throw py::attribute_error(caffe::Printable(
        caffe::Concat(Where(), ": class ", type.attr("__name__").cast<std::string>(),
                      " has no method reshape(self, bottom, top), which must shape each top: ",
                      "top[0].reshape(*bottom[0].data.shape)")));
  }
  Call("reshape", py::make_tuple(Blobs(bottom), Blobs(top)));
  MarkData(top);
}

void PythonLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  const InPython python;
  Reshape(bottom, top);
  SyncViews(Pointers(blobs_));
  Call("forward", py::make_tuple(Blobs(bottom), Blobs(top)));
  MarkData(top);
}

void PythonLayer::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                           const BlobVec& bottom) {
  const InPython python;
  SyncViews(top);
  SyncViews(bottom);
  SyncViews(Pointers(blobs_));
  Call("backward", py::make_tuple(Blobs(top), propagate_down, Blobs(bottom)));
  MarkDiffs(bottom);
  MarkDiffs(Pointers(blobs_));
}

caffe::LayerFacts PythonLayer::Facts() const {
  caffe::LayerFacts facts;
  facts.host = facts.shapes_from_data = true;
  return facts;
}

void PythonLayer::AddBlob(const caffe::Shape& shape) {
  const std::string blob_name = caffe::Concat(name(), ".", blobs_.size());
  blobs_.push_back(caffe::MakeBlob(master_type(), device(), shape, blob_name));
}

void BindPythonLayer(py::module_& module) {
  py::class_<LayerBlobs>(module, "BlobVec", "The parameters of a layer, a list of caffe.Blob.")
      .def("__len__", [](const LayerBlobs& blobs) { return blobs.list().size(); })
      .def("__getitem__", &BlobAt)
      .def("__getitem__",
           [](const LayerBlobs& blobs, const py::slice& slice) {
             return py::object(py::list(py::cast(blobs.list()))[slice]);
           })
      .def("__iter__",
           [](const LayerBlobs& blobs) { return py::iter(py::list(py::cast(blobs.list()))); })
      .def(
          "add_blob",
          [](LayerBlobs& blobs, const py::args& extents) {
            auto* layer = dynamic_cast<PythonLayer*>(blobs.layer.get());
            CAFFE_CHECK(layer, blobs.layer->name(), " (", blobs.layer->type(),
                        "): add_blob can be called only in the setup of a Python layer");
            layer->AddBlob(ToShape(extents, blobs.layer->name() + ": add_blob"));
          },
          "Adds a parameter of zeros, in the setup of a Python layer: add_blob(2, 3) or\n"
          "add_blob((2, 3)). Its type is float, or double in a layer of double. RuntimeError in\n"
          "other layers.");
  auto layer = py::reinterpret_borrow<py::class_<LayerBase, std::shared_ptr<LayerBase>>>(
      module.attr("Layer"));
  layer.def(py::init(&PythonLayer::MakeBase))
      .def(
          "setup", [](LayerBase&, const py::object&, const py::object&) {}, py::arg("bottom"),
          py::arg("top"), "Does nothing; a layer written in Python overrides it.")
      .def(
          "reshape", [](LayerBase&, const py::object&, const py::object&) {}, py::arg("bottom"),
          py::arg("top"),
          "Does nothing; a layer written in Python must override it and shape its tops.")
      .def_property_readonly(
          "blobs", [](const std::shared_ptr<LayerBase>& self) { return LayerBlobs{self}; },
          "The parameters, a caffe.BlobVec of caffe.Blob; empty if the layer has none.")
      .def_property_readonly(
          "param_str",
          [](const LayerBase& self) { return self.layer_param().python_param().param_str(); },
          "python_param's param_str, str: settings in a form that the layer reads.")
      .def_property_readonly(
          "phase", [](const LayerBase& self) { return static_cast<int>(self.phase()); },
          "The phase of the net, caffe.TRAIN (0) or caffe.TEST (1).");

  caffe::LayerTraits traits;
  traits.min_bottom = traits.min_top = 0;
  traits.max_bottom = traits.max_top = -1;
  traits.in_place = true;
  traits.data = traits.reads_any_float = true;
  traits.summary = "a class written in Python";
  caffe::LayerRegistry::Get().AddUntyped("Python", traits, &PythonLayer::Create);
}
