#include <algorithm>
#include <iostream>

#include "caffe.pb.h"
#include "caffe/calibration/image_batches.hpp"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/progress_bar.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/transform/transform.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/image_flags.hpp"

namespace caffe {
namespace {

DataType QuantizedType(const std::string& name) {
  if (name == "int8") return kQuant8;
  if (name == "int16") return kQuant16;
  CAFFE_CHECK(name == "half" || name == "bfloat16", "quantize: unknown -type '", name,
              "' (known: int8 int16 half bfloat16)");
  return DataTypeByName(name);
}

// A progress bar for each kind of work, or a log line where there is no terminal.
class Progress {
 public:
  explicit Progress(bool wanted) : bars_(wanted && ProgressBar::Wanted()) {}
  void Show(const std::string& what, int64_t done, int64_t all) {
    if (what != what_) {
      what_ = what;
      bar_.reset();
      if (bars_) bar_ = std::make_unique<ProgressBar>(&std::cerr, 0, all, 0);
      log::Info(Concat(what, all > 0 ? Concat(": ", all, " steps") : ""));
    }
    if (bar_) bar_->Show(done, Concat(what, " ", done, all > 0 ? Concat("/", all) : ""));
  }

 private:
  bool bars_;
  std::string what_;
  std::unique_ptr<ProgressBar> bar_;
};

}  // namespace

int QuantizeCommand(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "quantize: Need a float model: -model FILE");
  CAFFE_CHECK(!options.weights.empty(), "quantize: Need the weights of the model: -weights FILE");
  CAFFE_CHECK(!options.out.empty(),
              "quantize: Need the names of the results: -out PREFIX (writes PREFIX.caffemodel, "
              "PREFIX.prototxt, PREFIX.json, PREFIX.html)");
  CheckImageFlags(options);
  QuantizeOptions quantize;
  const std::string type = options.type.empty() ? "int8" : options.type;
  quantize.type = QuantizedType(type);
  quantize.calibration.method = MethodByName(options.method);
  quantize.calibration.percentile = options.percentile;
  CAFFE_CHECK(options.scales == "any" || options.scales == "power_of_two",
              "quantize: unknown -scales '", options.scales, "' (known: any power_of_two)");
  quantize.calibration.power_of_two = options.scales == "power_of_two";
  CAFFE_CHECK(options.rounding == "nearest" || options.rounding == "adaround",
              "quantize: unknown -rounding '", options.rounding, "' (known: nearest adaround)");
  quantize.adaround = options.rounding == "adaround";
  quantize.bias_correction = options.bias_correction;
  quantize.equalize = options.equalize;
  quantize.tune_ranges = options.tune_ranges;
  quantize.scores = options.scores;
  if (options.max_drop >= 0) quantize.max_drop = options.max_drop;
  const bool given_iterations = options.iterations_given;
  quantize.calibration_batches = given_iterations ? options.iterations : 10;

  const std::vector<std::string> files = FilesInList(options.weights);
  std::vector<std::string> inputs = files;
  inputs.insert(inputs.end(), {options.model, options.images});
  const NetParameter model = ReadTestNetFile(options.model);
  for (const std::string& file : InputFiles(model)) inputs.push_back(file);
  CheckResults(options.out, QuantizedNetExtensions(), inputs);
  const NetParameter weights = ReadModel(model, files, options.strict, &quantize.stored_types);
  quantize.device = ChooseDevice(options.gpu);
  const bool has_data = HasDataLayers(model), dynamic = quantize.dynamic();
  CAFFE_CHECK(
      has_data || !options.images.empty() || dynamic, "quantize: ", options.model,
      " has Input layers and no data layers: give -images IMAGES, or a net with data layers; "
      "-method dynamic needs no data");
  quantize.held_out_batches = options.held_out;
  if (dynamic) {
    // All batches compare; data layers may have no end.
    if (options.held_out < 0 && (given_iterations || has_data)) {
      quantize.held_out_batches = quantize.calibration_batches;
    }
    quantize.calibration_batches = 0;
  }
  BatchReader read;
  std::shared_ptr<ImageBatches> images;
  if (options.images.empty()) {
    CAFFE_CHECK(GivenImageFlags(options).empty(), "quantize: without -images nothing uses ",
                GivenImageFlags(options), ": data layers have a transform_param of their own");
    if (has_data) {
      const auto batches = std::make_shared<DataLayerBatches>(model, quantize.device);
      if (!dynamic) batches->Divide(!given_iterations, &quantize);
      read = [batches](int64_t index, Batch* batch) { return batches->Read(index, batch); };
    }
  } else {
    CAFFE_CHECK(!has_data, "quantize: ", options.model,
                " has data layers, and -images is given: ", "use one of them");
    Shape shape;
    const std::string blob = ImageInput(model, &shape);
    ImageBatchOptions settings = ImageSettings(options);
    const int64_t size = settings.keep_sizes ? 1 : shape[0];
    settings.first = quantize.calibration_batches * size;
    images = std::make_shared<ImageBatches>(settings, blob, shape);
    // A short list is divided: half of it to calibrate.
    const int64_t all = (images->images() + size - 1) / size;
    if (!given_iterations && !dynamic && all <= quantize.calibration_batches) {
      quantize.calibration_batches = std::max<int64_t>(all / 2, 1);
      settings.first = quantize.calibration_batches * size;
      images = std::make_shared<ImageBatches>(settings, blob, shape);
    }
    CAFFE_CHECK(quantize.calibration_batches < std::max<int64_t>(all, 2),
                "quantize: ", options.images, " has ", images->images(), " images, which are ", all,
                " batches: with -iterations ", quantize.calibration_batches,
                " none are left to compare with the float net");
    quantize.batches = all;
    read = [images](int64_t index, Batch* batch) { return images->Read(index, batch); };
  }
  log::Info(Concat("Quantizing ", options.model, " to ", type, ": method ", options.method, ", ",
                   quantize.calibration_batches, " batches to calibrate",
                   images ? Concat(", from ", images->images(), " images of ", options.images)
                   : read ? " from the data layers"
                          : ", which need no data",
                   ", ",
                   !read                           ? std::string("none")
                   : quantize.held_out_batches < 0 ? std::string("the rest")
                                                   : Concat(quantize.held_out_batches),
                   " to compare",
                   quantize.max_drop ? Concat(", at most ", *quantize.max_drop,
                                              " percentage points of top-1 lost")
                                     : "",
                   "; writing ", options.out, ".caffemodel, .prototxt, .json and .html"));
  Progress progress(options.progress);
  quantize.progress = [&](const std::string& what, int64_t done, int64_t all) {
    progress.Show(what, done, all);
  };
  const QuantizedNet result = QuantizeNet(model, weights, read, quantize);
  if (images) WarnOfUnreadable(*images);
  WriteQuantizedNet(result, options.out);
  std::cout << (options.json ? ReportJson(result.report) : ReportText(result.report)) << std::flush;
  return 0;
}

}  // namespace caffe
