#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/transform/pass_registry.hpp"
#include "caffe/transform/transform.hpp"
#include "gil.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::NetParameter;

py::dict ToDict(const caffe::TransformReport& report) {
  py::list passes, outputs;
  for (const caffe::PassReport& pass : report.passes) {
    passes.append(py::dict(
        py::arg("name") = pass.name, py::arg("layers_before") = pass.layers_before,
        py::arg("layers_after") = pass.layers_after, py::arg("bytes_before") = pass.bytes_before,
        py::arg("bytes_after") = pass.bytes_after, py::arg("notes") = pass.notes));
  }
  for (const caffe::OutputDifference& output : report.outputs) {
    outputs.append(
        py::dict(py::arg("blob") = output.blob, py::arg("count") = output.count,
                 py::arg("items") = output.items, py::arg("not_finite") = output.not_finite,
                 py::arg("largest") = output.largest,
                 py::arg("largest_difference") = output.largest_difference,
                 py::arg("relative") = output.relative, py::arg("cosine") = output.cosine,
                 py::arg("same_argmax") = output.same_argmax));
  }
  py::list packed;
  for (const caffe::PackedSize& size : report.packed) {
    packed.append(py::dict(py::arg("program") = size.program, py::arg("before") = size.before,
                           py::arg("after") = size.after));
  }
  return py::dict(py::arg("passes") = passes, py::arg("packed") = packed,
                  py::arg("outputs") = outputs);
}

py::tuple TransformNet(const py::object& net, const py::object& weights, const py::object& out,
                       const py::dict& settings) {
  caffe::TransformOptions options;
  options.passes = settings["passes"].cast<std::vector<std::string>>();
  options.type = settings["type"].cast<std::string>();
  options.levels = settings["levels"].cast<int>();
  options.strip.shape = settings["shape"].cast<std::vector<int64_t>>();
  options.strip.outputs = settings["outputs"].cast<std::vector<std::string>>();
  options.seed = settings["seed"].cast<uint64_t>();
  options.device = caffe::Runtime::Get().default_device();
  using Array = py::array_t<float, py::array::c_style | py::array::forcecast>;
  for (const auto& [name, value] : settings["inputs"].cast<py::dict>()) {
    const auto array = value.cast<Array>();
    const auto key = name.cast<std::string>();
    options.inputs[key].assign(array.data(), array.data() + array.size());
    options.input_shapes[key].assign(array.shape(), array.shape() + array.ndim());
  }
  caffe::CheckPasses(options);
  const std::string prefix = out.is_none() ? "" : ToFile(out, "transform");
  const auto check = [&](const NetParameter& read, std::vector<std::string> inputs) {
    if (!settings["python_layers"].cast<bool>()) caffe::RefusePythonLayersInTest(read);
    if (prefix.empty()) return;
    for (const std::string& file : caffe::InputFiles(read)) inputs.push_back(file);
    caffe::CheckResults(prefix, {".caffemodel", ".prototxt"}, inputs);
  };
  NetParameter model;
  if (weights.is_none()) {
    NetParameter parameter;
    caffe::Net& made = net.cast<caffe::Net&>();
    LockOf(made)->WaitUntilIdle();
    made.ToProto(&parameter);
    check(parameter, LockOf(made)->files);
    model = caffe::JoinModel(parameter, parameter);
  } else {
    const std::string path = ToFile(net, "transform");
    const std::vector<std::string> files = ToFiles(weights, "transform");
    const NetParameter parameter = caffe::ReadTestNetFile(path);
    std::vector<std::string> inputs = files;
    inputs.push_back(path);
    check(parameter, inputs);
    model = caffe::ReadModel(parameter, files);
  }
  caffe::TransformReport report;
  std::string bytes;
  {
    const WithoutGil release;
    model = caffe::TransformModel(std::move(model), options, &report);
    if (prefix.empty()) {
      bytes = model.SerializeAsString();
    } else {
      caffe::WriteModel(model, prefix);
    }
  }
  return py::make_tuple(ToDict(report), py::bytes(bytes));
}

py::tuple Transform(const py::object& net, const py::object& weights, const py::object& out,
                    const py::dict& settings) {
  return caffe::NamingMemory(NetOrWeights(net, weights),
                             [&] { return TransformNet(net, weights, out, settings); });
}

NetParameter Parsed(const py::bytes& bytes) {
  NetParameter model;
  CAFFE_CHECK(model.ParseFromString(bytes), "the bytes are not those of a NetParameter");
  return model;
}

// `function` gets the bytes of a model, and returns the bytes of the result and a list of notes.
void RegisterPass(const std::string& name, const py::object& function) {
  // The registry lives longer than the interpreter, so that the reference is never given back.
  auto* const kept = new py::object(function);
  const auto run = [kept](const NetParameter& model, const caffe::TransformOptions&,
                          caffe::TransformNotes* notes) {
    const std::string bytes = model.SerializeAsString();
    const WithGil gil;
    const auto result = CallPython(*kept, py::make_tuple(py::bytes(bytes))).cast<py::tuple>();
    for (const py::handle note : result[1]) notes->push_back(note.cast<std::string>());
    return Parsed(result[0].cast<py::bytes>());
  };
  try {
    caffe::RegisterPass(name, run);
  } catch (...) {
    delete kept;
    throw;
  }
}

// An entry of the pattern is the name of a type, or a function of a layer's bytes.
std::vector<std::vector<int>> FindChains(const py::bytes& model, const py::list& pattern) {
  std::vector<caffe::LayerPattern> layers;
  for (const py::handle entry : pattern) {
    caffe::LayerPattern& layer = layers.emplace_back();
    if (py::isinstance<py::str>(entry)) {
      layer.type = entry.cast<std::string>();
      continue;
    }
    layer.fits = [entry](const caffe::LayerParameter& one) {
      return py::bool_(entry(py::bytes(one.SerializeAsString()))).cast<bool>();
    };
  }
  return caffe::FindChains(Parsed(model), layers);
}

// The reason why the layer stays, and the bytes of the model.
py::tuple RemoveCopy(const py::bytes& model, int layer) {
  NetParameter changed = Parsed(model);
  const std::string why = caffe::RemoveCopy(&changed, layer);
  return py::make_tuple(why, py::bytes(changed.SerializeAsString()));
}

}  // namespace

void BindTransform(py::module_& module) {
  module.def("_transform", &Transform);
  module.def("_register_pass", &RegisterPass);
  module.def("_find_chains", &FindChains);
  module.def("_remove_copy", &RemoveCopy);
}
