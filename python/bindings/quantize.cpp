#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/transform/transform.hpp"
#include "gil.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

namespace {

using caffe::NetParameter;

// Reads batches by a function of Python: read(index) is None after the last one, or a dict of
// float arrays and an array of labels.
class PythonBatches {
 public:
  explicit PythonBatches(const py::function& read) : read_(read) {}
  bool operator()(int64_t index, caffe::Batch* batch) const {
    const WithGil python;
    CheckSignals();
    const py::object answer = CallPython(read_, py::make_tuple(index));
    if (answer.is_none()) return false;
    using Array = py::array_t<float, py::array::c_style | py::array::forcecast>;
    const auto [values, labels] = answer.cast<std::pair<py::dict, Array>>();
    for (const auto& [key, value] : values) {
      const auto array = value.cast<Array>();
      const auto name = key.cast<std::string>();
      batch->values[name].assign(array.data(), array.data() + array.size());
      batch->shapes[name].assign(array.shape(), array.shape() + array.ndim());
    }
    batch->labels.assign(labels.data(), labels.data() + labels.size());
    batch->labels_shape.assign(labels.shape(), labels.shape() + labels.ndim());
    return true;
  }

 private:
  const py::function& read_;  // outlives the call
};

caffe::DataType TypeOf(const std::string& name) {
  if (name == "int8") return caffe::kQuant8;
  if (name == "int16") return caffe::kQuant16;
  return caffe::DataTypeByName(name);
}

py::str QuantizeNet(const py::object& net, const py::object& weights_path, const py::object& read,
                    const py::dict& settings, const py::object& out) {
  caffe::QuantizeOptions options;
  options.type = TypeOf(settings["type"].cast<std::string>());
  options.calibration.method = caffe::MethodByName(settings["method"].cast<std::string>());
  options.calibration.percentile = settings["percentile"].cast<double>();
  options.calibration_batches = settings["calibrate"].cast<int64_t>();
  options.held_out_batches = settings["held_out"].cast<int64_t>();
  options.adaround = settings["rounding"].cast<std::string>() == "adaround";
  options.bias_correction = settings["bias_correction"].cast<bool>();
  options.equalize = settings["equalize"].cast<bool>();
  options.tune_ranges = settings["tune_ranges"].cast<bool>();
  options.float_scores = settings["float_scores"].cast<bool>();
  options.scores = settings["scores"].cast<std::string>();
  options.batches = settings["batches"].cast<int64_t>();
  if (!settings["max_drop"].is_none()) options.max_drop = settings["max_drop"].cast<double>();
  for (const auto& [name, range] : settings["ranges"].cast<py::dict>()) {
    const auto [low, high] = range.cast<std::pair<double, double>>();
    options.ranges[name.cast<std::string>()] = {low, high};
  }
  const std::string prefix = out.is_none() ? "" : ToFile(out, "quantize");
  const auto check = [&](const NetParameter& read, std::vector<std::string> inputs) {
    if (!settings["python_layers"].cast<bool>()) caffe::RefusePythonLayersInTest(read);
    if (prefix.empty()) return;
    for (const std::string& file : caffe::InputFiles(read)) inputs.push_back(file);
    caffe::CheckResults(prefix, caffe::QuantizedNetExtensions(), inputs);
  };
  NetParameter model, weights;
  if (weights_path.is_none()) {
    caffe::Net& made = net.cast<caffe::Net&>();
    made.ToProto(&weights);
    model = weights;
    for (caffe::LayerParameter& layer : *model.mutable_layer()) layer.clear_blobs();
    check(model, LockOf(made)->files);
  } else {
    const std::vector<std::string> files = ToFiles(weights_path, "quantize");
    std::vector<std::string> inputs = files;
    if (IsMessage(net)) {
      model = ToNetParameter(net);
    } else {
      inputs.push_back(ToFile(net, "quantize"));
      model = caffe::ReadTestNetFile(inputs.back());
    }
    check(model, inputs);
    weights = caffe::ReadModel(model, files, false, &options.stored_types);
  }
  options.device = caffe::Runtime::Get().default_device();
  caffe::BatchReader reader;
  py::function function;
  if (read.is_none()) {
    const auto batches = std::make_shared<caffe::DataLayerBatches>(
        model, options.device, weights_path.is_none() ? &net.cast<const caffe::Net&>() : nullptr);
    batches->Divide(settings["default_number"].cast<bool>(), &options);
    reader = [batches](int64_t index, caffe::Batch* batch) { return batches->Read(index, batch); };
  } else {
    function = read.cast<py::function>();
    reader = PythonBatches(function);
  }
  std::string report;
  {
    const WithoutGil release;
    const caffe::QuantizedNet result = caffe::QuantizeNet(model, weights, reader, options);
    if (!prefix.empty()) caffe::WriteQuantizedNet(result, prefix);
    report = caffe::ReportJson(result.report);
  }
  return report;
}

py::str Quantize(const py::object& net, const py::object& weights, const py::object& read,
                 const py::dict& settings, const py::object& out) {
  return caffe::NamingMemory(NetOrWeights(net, weights),
                             [&] { return QuantizeNet(net, weights, read, settings, out); });
}

}  // namespace

void BindQuantize(py::module_& module) { module.def("_quantize", &Quantize); }
