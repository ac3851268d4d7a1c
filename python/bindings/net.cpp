#include "caffe/net/net.hpp"

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <mutex>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/foreign_names.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layers/memory_data_layer.hpp"
#include "caffe/net/input_shape.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/quant/histogram.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::Net;

struct ForgetNet {
  void operator()(Net* net) const {
    RemoveNet(*net);
    delete net;
  }
};

using OwnedNet = std::unique_ptr<Net, ForgetNet>;

std::vector<std::string> ToStages(const py::object& stages) {
  constexpr char kWanted[] = ", not a name or a list of names";
  if (stages.is_none()) return {};
  if (py::isinstance<py::str>(stages)) return {stages.cast<std::string>()};
  if (!py::isinstance<py::iterable>(stages)) {
    throw py::type_error("stages is " + Described(stages) + kWanted);
  }
  std::vector<std::string> names;
  for (const py::handle stage : stages) {
    if (!py::isinstance<py::str>(stage)) {
      throw py::type_error("stages holds " + Described(stage) + kWanted);
    }
    names.push_back(stage.cast<std::string>());
  }
  return names;
}

caffe::WeightsOptions Strictness(bool strict) {
  caffe::WeightsOptions options;
  if (strict) options.missing = caffe::MissingWeights::kRefuse;
  return options;
}

std::string NameOf(const Net& net) { return net.name().empty() ? "the net" : "net " + net.name(); }

OwnedNet MakeNet(const py::object& network, int phase, int level, const py::object& stages,
                 const py::object& weights, bool strict, bool python_layers) {
  if (phase != caffe::TRAIN && phase != caffe::TEST) {
    throw py::value_error(
        caffe::Concat("phase ", phase, " is neither caffe.TRAIN (0) nor TEST (1)"));
  }
  caffe::NetOptions options;
  options.phase = phase;
  options.level = level;
  options.seed = NextSeed();
  options.python_layers = python_layers;
  options.stages = ToStages(stages);
  std::vector<std::string> files;
  if (!weights.is_none()) files = ToFiles(weights, "weights");
  if (strict && files.empty()) {
    throw py::value_error("strict is True, but there are no weights to compare with the net");
  }
  const bool message = IsMessage(network);
  caffe::NetParameter parameter;
  std::string path;
  if (message) {
    parameter = ToNetParameter(network);
  } else {
    path = ToFile(network, "the net");
  }
  std::unique_ptr<Net> net;
  {
    const WithoutGil release;
    if (!message) parameter = caffe::ReadNetFile(path, &options.lines);
    net = std::make_unique<Net>(parameter, options);
    AnswerSignals(*net);
    if (!files.empty()) net->CopyTrainedLayersFrom(files, Strictness(strict));
  }
  const auto lock = std::make_shared<NetLock>(NameOf(*net));
  if (!message) lock->AddFiles({path});
  lock->AddFiles(files);
  CheckNames(*net);
  AddNet(*net, lock);
  return OwnedNet(net.release());
}

Net::Callback MakeCallback(const py::function& function) {
  // Destroyed with the net, while the GIL is held; called from a forward, while it is not.
  return [function](int layer) {
    const InPython python;
    const py::function kept = function;  // the function may set another callback
    CallPython(kept, py::make_tuple(layer));
  };
}

// For methods that need state which a running forward changes: waits until the net is idle.
Net& WaitUntilIdle(Net& net) {
  LockOf(net)->WaitUntilIdle();
  return net;
}

// For methods that read only what is constant after construction: does not wait.
const Net& Initialized(const Net& net) {
  LockOf(net);
  return net;
}

void CheckLayer(const Net& net, int layer) {
  CheckIndex(layer, static_cast<int64_t>(net.layers().size()), NameOf(net), "layer");
}

using Array = py::array_t<float, py::array::c_style | py::array::forcecast>;

void SetInputArrays(Net& net, const py::object& given, const Array& data, const Array& labels) {
  if (given.is_none() || !py::isinstance<caffe::LayerBase>(given)) {
    throw py::type_error("set_layer_input_arrays needs a layer of net.layers, not " +
                         Described(given));
  }
  auto* layer = given.cast<caffe::LayerBase*>();
  auto* memory_data = dynamic_cast<caffe::MemoryData*>(layer);
  CAFFE_CHECK(memory_data, "set_input_arrays needs a MemoryData layer, not ", layer->type());
  CAFFE_CHECK(data.ndim() > 0 && labels.size() == data.shape(0), "there are ",
              data.ndim() > 0 ? data.shape(0) : 0, " items and ", labels.size(), " labels");
  caffe::Shape item(data.shape() + 1, data.shape() + data.ndim());
  caffe::Shape wanted(memory_data->shape().begin() + 1, memory_data->shape().end());
  CAFFE_CHECK(item == wanted, "items of shape ", caffe::ShapeString(item),
              " were given, but the layer expects ", caffe::ShapeString(wanted));
  // The layer reads from the arrays and may release them while the GIL is not held.
  const std::shared_ptr<void> owner(new std::pair<Array, Array>(data, labels), [](void* arrays) {
    const InPython python;
    delete static_cast<std::pair<Array, Array>*>(arrays);
  });
  const std::lock_guard lock(*LockOf(net));
  memory_data->Reset(data.data(), labels.data(), data.shape(0), owner);
}

caffe::DataType CodeType(const std::string& name) {
  if (name == "int8") return caffe::kQuant8;
  if (name == "int16") return caffe::kQuant16;
  return caffe::DataTypeByName(name);
}

std::string CodeName(caffe::DataType type) { return type == caffe::kQuant8 ? "int8" : "int16"; }

}  // namespace

py::object NetObject(Net& net, const py::object& owner) {
  py::object object = py::cast(&net, py::return_value_policy::reference_internal, owner);
  if (py::type::of(object).is(py::type::of<Net>())) {
    object.attr("__class__") = py::module_::import("caffe.pycaffe").attr("Net");
  }
  return object;
}

py::dict MemoryDict(const caffe::MemoryNeeds& needs) {
  py::dict memory;
  memory["weights"] = needs.parameters;
  memory["derived_weights"] = needs.derived;
  memory["activations"] = needs.data;
  memory["diffs"] = needs.diffs + needs.parameter_diffs;
  memory["workspace"] = needs.workspace;
  memory["total"] = needs.total();
  return memory;
}

py::dict HistogramDict(const std::map<std::string, caffe::Histogram>& histograms) {
  py::dict dict;
  for (const auto& [name, histogram] : histograms) {
    std::vector<double> edges;
    for (int i = 0; i <= caffe::Histogram::kBins; ++i) edges.push_back(histogram.Edge(i));
    dict[py::str(name)] =
        py::make_tuple(py::array_t<int64_t>(histogram.counts.size(), histogram.counts.data()),
                       py::array_t<double>(edges.size(), edges.data()));
  }
  return dict;
}

void BindNet(py::module_& module) {
  module.def("_shape_fault", [](const std::string& name, const std::vector<int64_t>& given,
                                const std::vector<int64_t>& wanted) {
    return caffe::InputShapeFault(name, given, wanted, caffe::InputUser::kForward);
  });
  py::class_<NetLock, std::shared_ptr<NetLock>>(module, "_NetLock")
      .def("__enter__", [](NetLock& lock) { lock.lock(); })
      .def("__exit__", [](NetLock& lock, const py::args&) { lock.unlock(); });
  using caffe::StepInfo;
  py::class_<StepInfo>(module, "Step",
                       "A step of a net's forward: one layer, or several that are computed "
                       "together; see Net.plan.")
      .def_readonly("layers", &StepInfo::layers,
                    "The names of the layers, a list of str. Layers that the net added for copies\n"
                    "and casts are steps, too.")
      .def_readonly("layer_types", &StepInfo::layer_types,
                    "The types of the layers, a list of str: ['Convolution', 'ReLU'].")
      .def_property_readonly(
          "library",
          [](const StepInfo& step) -> std::optional<std::string> {
            if (step.library.empty()) return std::nullopt;
            return step.library;
          },
          "The library that computes the step, str: 'winograd', 'cublas', …\n\n"
          "'kernels': kernels of the layer itself. 'chain': one kernel for all of its layers.\n"
          "'host': the layer uses memory of the host.\n"
          "'producers': the steps before it write the blobs that it joins into its top.\n"
          "None: nothing is computed.")
      .def_property_readonly(
          "types", [](const StepInfo& step) { return step.types.name(); },
          "The types, str: 'half', or 'float/half/float' (compute/bottoms/tops) if they differ.")
      .def_property_readonly(
          "layout", &StepInfo::layout,
          "The order of elements in which bottoms and tops are, str: 'NCHW' (C order), 'NHWC', or\n"
          "'NCHW/NHWC' if it is another one for the tops. 'NHWC +2': two blobs are converted to\n"
          "another layout as part of the step.")
      .def_readonly("copies", &StepInfo::copies,
                    "The number of bottoms that a layer which joins blobs (Concat) copies, int.")
      .def_readonly("workspace_bytes", &StepInfo::workspace_bytes,
                    "Bytes of temporary memory, int. Steps use the same memory in turn.")
      .def_readonly("bytes", &StepInfo::bytes,
                    "Bytes of the blobs and parameters that the step reads and of the blobs that "
                    "it\nwrites, int; each counts once.")
      .def_readonly("operations", &StepInfo::operations,
                    "The number of additions and multiplications, int, or None if the formula of "
                    "the\nlayer is not known.");
  py::class_<Net, OwnedNet>(
      module, "Net", py::dynamic_attr(),
      "A net from a prototxt or a message, on this thread's default device.\n\n"
      "Net(network_file, phase=TEST, level=0, stages=None, weights=None, strict=False,\n"
      "    python_layers=True)\n\n"
      "network_file: a prototxt's path, a caffe_pb2.NetParameter or a caffe.NetParameter.\n"
      "phase: caffe.TRAIN or caffe.TEST, or their names.\n"
      "level, stages: select layers by their include and exclude rules; stages is a name or a\n"
      "list of names.\n"
      "weights, strict: see copy_from.\n"
      "python_layers: False refuses a net with a layer of type Python, before any module is\n"
      "imported: for nets of others, whose layers in Python are their code.\n\n"
      "The RuntimeError for an invalid net names the layer, the blob and the values. If several\n"
      "threads use a net, one runs it at a time.")
      .def(py::init(&MakeNet), py::arg("network_file"), py::arg("phase"), py::arg("level"),
           py::arg("stages"), py::arg("weights"), py::arg("strict"), py::arg("python_layers"))
      .def("exclusive", &LockOf,
           "with net.exclusive(): other threads that run the net wait until the block ends.\n\n"
           "During the block no other thread overwrites the views that forward returns.")
      .def("_run_forward",
           [](Net& net, int start, int end) {
             const Computing computing(net);
             net.Forward(start, end);
             net.CheckData();
           })
      .def("_expect_forward", [](Net& net, bool yes) { WaitUntilIdle(net).ExpectForward(yes); })
      .def("_loss",
           [](Net& net) {
             const Computing computing(net);
             return net.Loss();
           })
      .def("_request_gradients",
           [](Net& net, const std::vector<std::string>& where_known,
              const std::vector<std::string>& asked) {
             const Computing computing(net);
             net.TakeViews();
             net.RequestGradients(asked);
             return net.RequestGradientsWhereKnown(where_known);
           })
      .def("_backward",
           [](Net& net, int start, int end) {
             const Computing computing(net);
             net.TakeViews();  // a script may have changed data since the forward
             net.Backward(start, end);
           })
      .def(
          "reshape",
          [](Net& net) {
            const Computing computing(net);
            net.Reshape();
          },
          "Computes the shapes of all blobs from those of the inputs.\n\n"
          "Used after net.blobs['data'].reshape(1, 3, 500, 500); forward does this, too. The\n"
          "RuntimeError for shapes that do not fit names the first such layer.")
      .def(
          "clear_param_diffs",
          [](Net& net) {
            const Computing computing(net);
            net.ClearParamDiffs();
            net.SyncViews();
          },
          "Sets the gradients of all parameters to zero. backward adds to them.")
      .def(
          "copy_from",
          [](Net& net, const py::object& given, bool map_weights, bool strict) {
            const std::vector<std::string> files = ToFiles(given, "copy_from");
            const Computing computing(net);
            LockOf(net)->AddFiles(files);
            caffe::WeightsOptions options = Strictness(strict);
            options.map = map_weights;
            net.CopyTrainedLayersFrom(files, options);
            net.SyncViews();
          },
          py::arg("path"), py::arg("map_weights") = false, py::arg("strict") = false,
          "Copies weights, and ranges of blobs, from a caffemodel or HDF5 file, by the names of\n"
          "layers.\n\n"
          "path: a file, or a list of files; later ones replace weights of earlier ones.\n"
          "strict: a layer with parameters that no file has keeps its values, with a warning that\n"
          "suggests a name of the file. True makes it a RuntimeError, also for parameters that no\n"
          "layer of the net takes; nothing is copied then.\n"
          "RuntimeError if a file cannot be read or a shape differs.\n"
          "map_weights=True uses aligned weights in the file, without a copy: the file must not "
          "be\n"
          "changed or truncated while the net exists. caffe transform writes aligned files.")
      .def(
          "keep",
          [](Net& net, const py::args& blobs) {
            std::vector<std::string> names;
            for (const py::handle blob : blobs) {
              if (!py::isinstance<py::str>(blob)) {
                throw py::type_error("keep takes names of blobs, not " + Described(blob));
              }
              names.push_back(blob.cast<std::string>());
            }
            const Computing computing(net);
            net.Keep(names);
          },
          "keep('conv1', 'fc7'): every forward writes these blobs.\n\n"
          "A whole forward in phase TEST computes some layers together and does not write the\n"
          "blobs between them, and blobs share memory. Reading such a blob computes it, with the\n"
          "values of the last forward, also if inputs or weights have changed since. Where that "
          "is\n"
          "not possible, reading is a RuntimeError. A solver frees blobs and gradients that no "
          "layer\n"
          "needs. Keep blobs that you read after each forward or step. RuntimeError for an "
          "unknown\n"
          "name.")
      .def(
          "share_with",
          [](Net& net, const Net& other) {
            const std::lock_guard lock(*LockOf(net));
            LockOf(other)->WaitUntilIdle();
            net.ShareTrainedLayersWith(other);
          },
          py::arg("other"),
          "Uses the memory of the weights of the other net's layers of the same names.\n\n"
          "Gradients are not shared. "
          "RuntimeError if a shape differs or the nets are on different devices.")
      .def(
          "save",
          [](Net& net, const py::object& given, bool write_diff) {
            const std::string path = ToFile(given, "save");
            const Computing computing(net);
            net.TakeViews();
            if (path.ends_with(".h5")) return net.SaveHDF5(path, write_diff);
            caffe::NamingMemory(path, [&] {
              caffe::NetParameter parameter;
              net.ToProto(&parameter, write_diff);
              caffe::WriteBinaryProto(path, parameter);
            });
          },
          py::arg("path"), py::arg("write_diff") = false,
          "Writes a caffemodel: weights, ranges of blobs, and the gradients if write_diff.\n\n"
          "For a name that ends in .h5 it does what save_hdf5 does.\n"
          "RuntimeError if the file cannot be written; an existing file is then unchanged.")
      .def(
          "save_hdf5",
          [](const Net& net, const py::object& given, bool write_diff) {
            const std::string path = ToFile(given, "save_hdf5");
            const Computing computing(net);
            net.SaveHDF5(path, write_diff);
          },
          py::arg("path"), py::arg("write_diff") = false,
          "Writes the weights as HDF5 in BVLC Caffe's layout; errors are those of save.\n\n"
          "A RuntimeError also if such a file could not be read back: a layer with parameters has\n"
          "no name, or two names are one path ('a/0' is parameter 0 of 'a').")
      .def(
          "load_hdf5",
          [](Net& net, const py::object& given, bool strict) {
            const std::string path = ToFile(given, "load_hdf5");
            LockOf(net)->AddFiles({path});
            const Computing computing(net);
            net.LoadHDF5(path, Strictness(strict));
            net.SyncViews();
          },
          py::arg("path"), py::arg("strict") = false,
          "Copies the weights of an HDF5 file; strict and errors are those of copy_from.")
      .def_property_readonly(
          "name", [](const Net& net) { return Initialized(net).name(); },
          "The name in the prototxt, str.")
      .def_property_readonly(
          "_phase", [](const Net& net) { return static_cast<int>(Initialized(net).phase()); })
      .def_property_readonly(
          "layers", [](const Net& net) { return Initialized(net).layers(); },
          "The layers, a list of caffe.Layer in the order of a forward. net.layer_dict has them "
          "by\n"
          "name.")
      .def_property_readonly(
          "plan",
          [](Net& net) {
            const Computing computing(net);
            return net.Steps();
          },
          "The steps of a whole forward for the current shapes, a list of caffe.Step.\n\n"
          "It prepares the steps but computes no blob. keep and backward change which layers are\n"
          "computed together. RuntimeError if a quantized layer has no range yet.")
      .def_property_readonly(
          "memory",
          [](Net& net) {
            caffe::MemoryNeeds needs;
            {
              const Computing computing(net);
              needs = net.memory_needs();
            }
            return MemoryDict(needs);
          },
          "Bytes that the net needs on its device for the current shapes, a dict of int: weights,\n"
          "derived_weights (in the forms that operators take), activations, diffs (of blobs and "
          "of\n"
          "weights), workspace, total.\n\n"
          "It allocates nothing. In phase TEST it is the need of a whole forward, in phase TRAIN\n"
          "that of an iteration of a solver.")
      .def_property_readonly("_blobs", [](const Net& net) { return Initialized(net).blobs(); })
      .def_property_readonly("_blob_names",
                             [](const Net& net) { return Initialized(net).blob_names(); })
      .def_property_readonly("_layer_names",
                             [](const Net& net) { return Initialized(net).layer_names(); })
      .def_property_readonly("_inputs",
                             [](const Net& net) { return Initialized(net).input_blob_indices(); })
      .def_property_readonly("_outputs",
                             [](const Net& net) { return Initialized(net).output_blob_indices(); })
      .def_property_readonly("_blob_loss_weights",
                             [](const Net& net) { return Initialized(net).blob_loss_weights(); })
      .def("_bottom_ids",
           [](const Net& net, int layer) {
             CheckLayer(Initialized(net), layer);
             return net.bottom_ids(layer);
           })
      .def("_top_ids",
           [](const Net& net, int layer) {
             CheckLayer(Initialized(net), layer);
             return net.top_ids(layer);
           })
      .def("_set_input_arrays", &SetInputArrays)
      .def_property_readonly(
          "device", [](const Net& net) { return Initialized(net).device(); },
          py::return_value_policy::reference, "The caffe.Device on which the net runs.")
      .def_property(
          "_quant_mode", [](const Net& net) { return Initialized(net).quantizer_mode(); },
          [](Net& net, caffe::QuantizerMode mode) { WaitUntilIdle(net).set_quantizer_mode(mode); })
      .def_property(
          "_pseudo_type", [](const Net& net) { return CodeName(Initialized(net).pseudo_type()); },
          [](Net& net, const std::string& type) {
            WaitUntilIdle(net).set_pseudo_type(CodeType(type));
          })
      .def("_quantizer_names", [](const Net& net) { return Initialized(net).quantizers(); })
      .def("_quantizer_mode",
           [](const Net& net, const std::string& name) {
             return Initialized(net).QuantizerModeOf(name);
           })
      .def("_set_quantizer_mode",
           [](Net& net, const std::string& name, caffe::QuantizerMode mode) {
             WaitUntilIdle(net).SetQuantizerMode(name, mode);
           })
      .def("_quantizer_type",
           [](const Net& net, const std::string& name) {
             return CodeName(Initialized(net).PseudoTypeOf(name));
           })
      .def("_set_quantizer_type",
           [](Net& net, const std::string& name, const std::string& type) {
             WaitUntilIdle(net).SetPseudoType(name, CodeType(type));
           })
      .def_property_readonly(
          "ranges",
          [](Net& net) {
            py::dict ranges;
            for (const auto& [name, range] : WaitUntilIdle(net).Ranges()) {
              ranges[py::str(name)] = py::make_tuple(range.low, range.high);
            }
            return ranges;
          },
          "The observed ranges, a dict of (smallest, largest) by the name of the blob.\n\n"
          "They are collected in quant_mode observe, or read from a caffemodel. A blob that "
          "layers\n"
          "change in place has one range for each version: the last has the blob's name, an\n"
          "earlier one the name <blob>@<layer>, or <blob>@<layer>#2 for the second layer of a "
          "name.")
      .def_property_readonly(
          "histograms", [](Net& net) { return HistogramDict(WaitUntilIdle(net).Histograms()); },
          "The values seen in quant_mode observe, a dict of (counts, edges) by the name of the "
          "blob,\nas numpy.histogram returns them.\n\n"
          "2048 bins divide [-L, L], where L is a power of two that doubles until all values fit.\n"
          "The names are those of ranges.")
      .def(
          "before_forward",
          [](Net& net, const py::function& f) {
            WaitUntilIdle(net).set_before_forward(MakeCallback(f));
          },
          py::arg("function"),
          "Calls function(index of the layer in net.layers) before each layer's forward.\n\n"
          "Only one function can be set. With a function, layers run one by one (not fused).")
      .def(
          "after_forward",
          [](Net& net, const py::function& f) {
            WaitUntilIdle(net).set_after_forward(MakeCallback(f));
          },
          py::arg("function"), "As before_forward, after each layer's forward.")
      .def(
          "before_backward",
          [](Net& net, const py::function& f) {
            WaitUntilIdle(net).set_before_backward(MakeCallback(f));
          },
          py::arg("function"), "As before_forward, before each layer's backward.")
      .def(
          "after_backward",
          [](Net& net, const py::function& f) {
            WaitUntilIdle(net).set_after_backward(MakeCallback(f));
          },
          py::arg("function"), "As before_forward, after each layer's backward.")
      .def(
          "after_backward", [](Net&, const PythonNccl&) {}, py::arg("nccl"),
          "Kept for scripts of BVLC Caffe; has no effect: gradients are summed while the backward\n"
          "pass goes on, as layer_wise_reduce says.");
  module.def("_describe_foreign_layer", &caffe::DescribeForeignLayer);
  module.def("_read_net", [](const py::object& given) {
    return py::bytes(caffe::ReadNetFile(ToFile(given, "the net")).SerializeAsString());
  });
}
