#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <mutex>

#include "bindings.hpp"
#include "caffe.pb.h"
#include "caffe/calibration/checked_batches.hpp"
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

// A net, or a model and its weights, as messages, and the files that they were read from.
struct Source {
  NetParameter model, weights;
  std::vector<std::string> files;
  std::set<std::string> stored_types;
};

// `prefix`: of the results, which must replace none of the files; empty: there are none.
Source ReadSource(const py::object& net, const py::object& weights_path, bool python_layers,
                  const std::string& prefix) {
  Source source;
  const auto check = [&](const NetParameter& read) {
    if (!python_layers) caffe::RefusePythonLayersInTest(read);
    for (const std::string& file : caffe::InputFiles(read)) source.files.push_back(file);
    if (!prefix.empty()) {
      caffe::CheckResults(prefix, caffe::QuantizedNetExtensions(), source.files);
    }
  };
  if (weights_path.is_none()) {
    caffe::Net& made = net.cast<caffe::Net&>();
    made.ToProto(&source.weights);
    source.model = source.weights;
    for (caffe::LayerParameter& layer : *source.model.mutable_layer()) layer.clear_blobs();
    source.files = LockOf(made)->files;
    check(source.model);
    return source;
  }
  const std::vector<std::string> files = ToFiles(weights_path, "quantize");
  source.files = files;
  if (IsMessage(net)) {
    source.model = ToNetParameter(net);
  } else {
    source.files.push_back(ToFile(net, "quantize"));
    source.model = caffe::ReadTestNetFile(source.files.back());
  }
  check(source.model);
  source.weights = caffe::ReadModel(source.model, files, false, &source.stored_types);
  return source;
}

py::str QuantizeNet(const py::object& net, const py::object& weights_path, const py::object& read,
                    const py::dict& settings, const py::object& out) {
  caffe::QuantizeOptions options;
  options.type = TypeOf(settings["type"].cast<std::string>());
  options.calibration.method = caffe::MethodByName(settings["method"].cast<std::string>());
  options.calibration.percentile = settings["percentile"].cast<double>();
  options.calibration.power_of_two = settings["scales"].cast<std::string>() == "power_of_two";
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
  const Source source =
      ReadSource(net, weights_path, settings["python_layers"].cast<bool>(), prefix);
  options.stored_types = source.stored_types;
  options.device = caffe::Runtime::Get().default_device();
  if (options.dynamic()) {
    // The batches of the net's own data layers may have no end.
    constexpr int64_t kBatches = 10;
    options.calibration_batches = 0;
    if (read.is_none() && options.held_out_batches < 0) options.held_out_batches = kBatches;
  }
  caffe::BatchReader reader;
  py::function function;
  const bool has_data = caffe::HasDataLayers(source.model);
  if (read.is_none() && options.dynamic() && !has_data) {
    // Nothing is compared.
  } else if (read.is_none()) {
    const auto batches = std::make_shared<caffe::DataLayerBatches>(
        source.model, options.device,
        weights_path.is_none() ? &net.cast<const caffe::Net&>() : nullptr);
    if (!options.dynamic()) batches->Divide(settings["default_number"].cast<bool>(), &options);
    reader = [batches](int64_t index, caffe::Batch* batch) { return batches->Read(index, batch); };
  } else {
    function = read.cast<py::function>();
    reader = PythonBatches(function);
  }
  std::string report;
  {
    const WithoutGil release;
    const caffe::QuantizedNet result =
        caffe::QuantizeNet(source.model, source.weights, reader, options);
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

// The steps of QuantizeNet. Each value of Python is one of caffe/calibration/steps.hpp.

struct FloatNet {
  caffe::FloatNet net;
  std::vector<std::string> files;  // that it was read from
  std::recursive_mutex mutex;      // of its net, and of the nets that are compared with it
};

struct TypedNet {
  std::shared_ptr<FloatNet> source;
  caffe::Prepared prepared;
  caffe::TypedNet typed;
};

// Releases the GIL and locks the nets.
class Using {
 public:
  explicit Using(FloatNet& net) : lock_(net.mutex) {}

 private:
  const WithoutGil release_;
  const std::lock_guard<std::recursive_mutex> lock_;
};

caffe::RangeMap ToRanges(const py::dict& dict) {
  caffe::RangeMap ranges;
  for (const auto& [name, range] : dict) {
    const auto [low, high, method] = range.cast<std::tuple<double, double, std::string>>();
    ranges[name.cast<std::string>()] = {low, high, method};
  }
  return ranges;
}

py::dict ToDict(const caffe::RangeMap& ranges) {
  py::dict dict;
  for (const auto& [name, range] : ranges) {
    dict[py::str(name)] = py::make_tuple(range.low, range.high, range.origin);
  }
  return dict;
}

std::shared_ptr<FloatNet> MakeFloatNet(const py::object& net, const py::object& weights,
                                       const std::string& scores, bool python_layers) {
  return caffe::NamingMemory(NetOrWeights(net, weights), [&] {
    Source source = ReadSource(net, weights, python_layers, "");
    caffe::QuantizeOptions options;
    options.scores = scores;
    options.stored_types = source.stored_types;
    options.device = caffe::Runtime::Get().default_device();
    const WithoutGil release;
    auto made = std::make_shared<FloatNet>();
    made->net = caffe::MakeFloatNet(source.model, std::move(source.weights), options);
    made->files = source.files;
    return made;
  });
}

caffe::Observed Observe(FloatNet& net, const py::function& read, int64_t count) {
  caffe::QuantizeOptions options;
  options.calibration_batches = count;
  const caffe::BatchReader reader = PythonBatches(read);
  caffe::CheckedBatches batches(net.net, reader, options);
  const Using lock(net);
  return caffe::Observe(net.net, &batches, options);
}

py::dict ChooseRanges(FloatNet& net, const caffe::Observed& observed, const std::string& type,
                      const std::string& method, double percentile) {
  caffe::QuantizeOptions options;
  options.type = TypeOf(type);
  options.calibration = {caffe::MethodByName(method), percentile};
  caffe::RangeMap ranges;
  {
    const Using lock(net);
    ranges = caffe::ChooseRanges(net.net, observed, options);
  }
  return ToDict(ranges);
}

caffe::ChangedWeights ChangeWeights(FloatNet& net, const caffe::Observed& observed,
                                    const py::function& read, const std::string& type,
                                    bool adaround, bool bias_correction) {
  caffe::QuantizeOptions options;
  options.type = TypeOf(type);
  options.adaround = adaround;
  options.bias_correction = bias_correction;
  const caffe::BatchReader reader = PythonBatches(read);
  caffe::CheckedBatches batches(net.net, reader, options);
  const Using lock(net);
  return caffe::ChangeWeights(net.net, observed, &batches, options);
}

std::shared_ptr<TypedNet> MakeTypedNet(const std::shared_ptr<FloatNet>& net,
                                       const caffe::Observed& observed, const py::dict& ranges,
                                       const caffe::ChangedWeights& weights,
                                       const py::function& read, const std::string& type,
                                       bool float_scores) {
  caffe::QuantizeOptions options;
  options.type = TypeOf(type);
  options.float_scores = float_scores;
  const caffe::BatchReader reader = PythonBatches(read);
  caffe::CheckedBatches batches(net->net, reader, options);
  const auto made = std::make_shared<TypedNet>();
  made->source = net;
  caffe::Prepared& prepared = made->prepared;
  prepared.ranges = ToRanges(ranges);
  const Using lock(*net);
  for (const auto& [blob, range] : prepared.ranges) caffe::CheckRange(blob, range);
  caffe::CheckRangeNames(*net->net.net, prepared.ranges);
  prepared.net = net->net;
  prepared.types = caffe::TypesOf(net->net, options);
  prepared.observed = observed;
  prepared.ranges = caffe::Tied(net->net, std::move(prepared.ranges));
  prepared.weights = weights;
  caffe::CheckRanges(prepared, &batches);
  made->typed = caffe::MakeTypedNet(prepared);
  return made;
}

caffe::Accuracy Measure(const TypedNet& net, const py::function& read, int64_t count) {
  caffe::QuantizeOptions options;
  options.held_out_batches = options.batches = count;
  caffe::Prepared prepared = net.prepared;
  prepared.observed.batches = 0;  // the held-out batches have numbers of their own
  const caffe::BatchReader reader = PythonBatches(read);
  caffe::CheckedBatches batches(prepared.net, reader, options);
  const Using lock(*net.source);
  return caffe::Measure(prepared, net.typed, &batches, options);
}

py::str Report(const TypedNet& net, const caffe::Accuracy& accuracy, const std::string& method,
               const py::object& out) {
  caffe::QuantizeOptions options;
  options.calibration.method = caffe::MethodByName(method);
  const std::string prefix = out.is_none() ? "" : ToFile(out, "report");
  if (!prefix.empty()) {
    caffe::CheckResults(prefix, caffe::QuantizedNetExtensions(), net.source->files);
  }
  std::string json;
  {
    const Using lock(*net.source);
    const caffe::QuantizeReport report =
        caffe::MakeReport(net.prepared, net.typed, accuracy, options);
    if (!prefix.empty())
      caffe::WriteQuantizedNet({net.typed.model, net.typed.file, report}, prefix);
    json = caffe::ReportJson(report);
  }
  return json;
}

}  // namespace

void BindQuantize(py::module_& module) {
  module.def("_quantize", &Quantize);
  py::class_<FloatNet, std::shared_ptr<FloatNet>>(module, "_FloatNet")
      .def_property_readonly("inputs",
                             [](const FloatNet& net) {
                               std::vector<std::string> names;
                               for (const int blob : net.net.net->input_blob_indices()) {
                                 names.push_back(net.net.net->blob_names()[blob]);
                               }
                               return names;
                             })
      .def_property_readonly("scores", [](const FloatNet& net) { return net.net.scores.blob; });
  py::class_<caffe::Observed>(module, "_Observed")
      .def_readonly("items", &caffe::Observed::items)
      .def_property_readonly("ranges",
                             [](const caffe::Observed& one) { return ToDict(one.ranges); })
      .def_property_readonly(
          "histograms", [](const caffe::Observed& one) { return HistogramDict(one.histograms); });
  py::class_<caffe::ChangedWeights>(module, "_ChangedWeights")
      .def_readonly("corrected_biases", &caffe::ChangedWeights::corrected_biases)
      .def("gains", [](const caffe::ChangedWeights& weights) {
        std::map<std::string, double> gains;
        for (const auto& [layer, gain] : weights.gains) {
          gains[weights.file->layer(layer).name()] = gain;
        }
        return gains;
      });
  py::class_<TypedNet, std::shared_ptr<TypedNet>>(module, "_TypedNet")
      .def("model",
           [](const TypedNet& net) { return py::bytes(net.typed.model->SerializeAsString()); })
      .def("weights",
           [](const TypedNet& net) { return py::bytes(net.typed.file->SerializeAsString()); });
  using caffe::Accuracy;
  py::class_<Accuracy>(module, "_Accuracy")
      .def_readonly("items", &Accuracy::items)
      .def_readonly("positions", &Accuracy::positions)
      .def_readonly("labels", &Accuracy::labels)
      .def_property_readonly("agreement", &Accuracy::agreement)
      .def_property_readonly("top1", &Accuracy::top1)
      .def_property_readonly("float_top1", &Accuracy::float_top1)
      .def("snr", [](const Accuracy& accuracy) {
        std::map<std::string, double> snr;
        for (const auto& [blob, comparison] : accuracy.blobs) snr[blob] = comparison.snr();
        return snr;
      });
  module.def("_float_net", &MakeFloatNet);
  module.def("_observe", &Observe);
  module.def("_ranges", &ChooseRanges);
  module.def("_weights", &ChangeWeights);
  module.def("_typed_net", &MakeTypedNet);
  module.def("_measure", &Measure);
  module.def("_report", &Report);
}
