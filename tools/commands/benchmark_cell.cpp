#include "commands/benchmark_cell.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "caffe.pb.h"
#include "caffe/calibration/pack_parameters.hpp"
#include "caffe/calibration/random_batch.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "commands/net_types.hpp"

namespace caffe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLeastSamples = 3;
constexpr double kSampleSeconds = 0.02;  // so that reading the clock and waiting do not count

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string ModelPath(const std::string& model) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(model)) return model;
  const std::string folder = "models/" + model + "/";
  for (const std::string& path : {folder + "deploy.prototxt", folder + model + ".prototxt"}) {
    if (model.find('/') == std::string::npos && fs::is_regular_file(path)) return path;
  }
  CAFFE_THROW("benchmark: no model '", model,
              "': it is neither a prototxt nor a folder of models/");
}

std::string NetName(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string stem = file.stem();
  const bool general = stem == "deploy" || stem == "train_val";
  const std::string folder = file.parent_path().filename();
  return general && !folder.empty() ? folder : stem;
}

void SetBatch(int64_t batch, LayerParameter* layer) {
  const auto number = static_cast<uint32_t>(batch);
  const auto set = [&](BlobShape* shape) {
    if (shape->dim_size() > 0) shape->set_dim(0, batch);
  };
  if (layer->has_input_param()) {
    for (BlobShape& shape : *layer->mutable_input_param()->mutable_shape()) set(&shape);
  }
  if (layer->has_dummy_data_param()) {
    for (BlobShape& shape : *layer->mutable_dummy_data_param()->mutable_shape()) set(&shape);
  }
  if (layer->has_data_param()) layer->mutable_data_param()->set_batch_size(number);
  if (layer->has_image_data_param()) layer->mutable_image_data_param()->set_batch_size(number);
  if (layer->has_hdf5_data_param()) layer->mutable_hdf5_data_param()->set_batch_size(number);
  if (layer->has_memory_data_param()) layer->mutable_memory_data_param()->set_batch_size(number);
}

// Random numbers take longer than reading the weights that replace them.
void MakeFillersConstant(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.has_convolution_param()) layer.mutable_convolution_param()->clear_weight_filler();
    if (layer.has_inner_product_param()) layer.mutable_inner_product_param()->clear_weight_filler();
  }
}

NetParameter WithTypeAndBatch(const NetParameter& model, DataType type, int64_t batch) {
  NetParameter typed = model;
  SetNetType(type, &typed);
  for (LayerParameter& layer : *typed.mutable_layer()) SetBatch(batch, &layer);
  return typed;
}

std::unique_ptr<Net> MakeNet(const NetParameter& parameter, Device* device, bool train) {
  NetOptions options;
  options.device = device;
  options.phase = train ? TRAIN : TEST;
  options.seed = 1;
  return std::make_unique<Net>(parameter, options);
}

bool HasLoss(const Net& net) {
  const std::vector<float>& weights = net.blob_loss_weights();
  return std::any_of(weights.begin(), weights.end(), [](float weight) { return weight != 0; });
}

// A net of a cell on its device, with weights and inputs. Passes only enqueue work.
class CellNet {
 public:
  CellNet(const NetParameter& weights, const NetParameter& typed, Device* device, bool train)
      : device_(device), train_(train), net_(MakeNet(typed, device, train)) {
    if (train) {
      net_->CheckTrainable();
      if (!HasLoss(*net_)) {
        NetParameter forced = typed;
        forced.set_force_backward(true);
        net_.reset();
        net_ = MakeNet(forced, device, train);
      }
      net_->set_frees_memory(true);
    }
    net_->CopyTrainedLayersFrom(weights);
    ObserveMissingRanges(net_.get());
    net_->Reshape();
    FillInputsAtRandom(net_.get());
  }

  Net& net() { return *net_; }

  double Seconds(int passes) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < passes; ++i) {
      if (train_) {
        net_->ForwardBackward();
      } else {
        net_->Forward();
      }
    }
    device_->Synchronize();
    return SecondsSince(begin);
  }

 private:
  Device* device_;
  bool train_;
  std::unique_ptr<Net> net_;
};

// The bytes that the allocator holds for a pass, beyond what it held before the net.
int64_t PeakOfAPass(CellNet* net, Device* device, int64_t before, double* seconds) {
  net->Seconds(1);  // compiles, and makes weights in the forms of operators
  device->ResetPeak();
  *seconds = net->Seconds(1);
  return device->bytes_peak() - before;
}

std::vector<double> Samples(CellNet* net, double seconds_of_a_pass,
                            const BenchmarkSettings& settings, const std::function<bool()>& stop) {
  const int passes =
      std::clamp(static_cast<int>(std::ceil(kSampleSeconds / seconds_of_a_pass)), 1, 1000);
  const Clock::time_point warm_up = Clock::now();
  while (SecondsSince(warm_up) + seconds_of_a_pass < settings.seconds / 4 && !stop()) {
    net->Seconds(passes);
  }
  std::vector<double> samples;
  // A second pass of a slow net is a sample already.
  if (settings.samples == 0 && seconds_of_a_pass > settings.seconds) {
    samples.push_back(seconds_of_a_pass);
  }
  const Clock::time_point begin = Clock::now();
  const auto done = [&] {
    const int count = static_cast<int>(samples.size());
    if (settings.samples > 0) return count >= settings.samples;
    if (seconds_of_a_pass > settings.seconds) return count >= 2;
    return count >= kLeastSamples && SecondsSince(begin) > settings.seconds;
  };
  while (!done() && !stop()) samples.push_back(net->Seconds(passes) / passes);
  return samples;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr size_t kMost = 300;
  return text.size() > kMost ? text.substr(0, kMost) + "…" : text;
}

void Measure(const BenchmarkModel& model, Device* device, const BenchmarkSettings& settings,
             const std::function<bool()>& stop, BenchmarkCell* cell) {
  const DataType type = CommandType(cell->type);
  NetParameter typed = model.Typed(type, cell->batch);
  // A net that trains has masters in float.
  const NetParameter& weights = settings.train ? model.weights() : model.WeightsIn(type);
  // `caffe transform` writes files in types of users.
  if (!type.is_custom()) {
    cell->storage = static_cast<int64_t>(model.WeightsIn(type).ByteSizeLong());
  }
  const int64_t before = device->bytes_in_use();
  double seconds = 0;
  std::vector<double> samples;
  {
    CellNet net(weights, typed, device, settings.train);
    cell->random_ranges = type.is_quantized() && model.random_ranges();
    cell->predicted = net.net().memory_needs().total();
    cell->memory = PeakOfAPass(&net, device, before, &seconds);
    if (!stop()) samples = Samples(&net, seconds, settings, stop);
  }
  CAFFE_CHECK(!stop(), "interrupted");
  cell->milliseconds = 1e3 * Median(samples);
  cell->fastest = 1e3 * *std::min_element(samples.begin(), samples.end());
  cell->samples = static_cast<int64_t>(samples.size());
  if (!settings.plain) return;
  ForEachNet(&typed, [](NetParameter* net) { net->set_reduced_memory_inference(false); });
  device->ReleaseCache();
  try {
    CellNet net(weights, typed, device, settings.train);
    cell->plain_memory = PeakOfAPass(&net, device, before, &seconds);
  } catch (const std::exception& error) {
    cell->error = OneLine(Concat("with a memory for each blob: ", error.what()));
  }
}

}  // namespace

BenchmarkModel::BenchmarkModel(const std::string& model, const std::vector<std::string>& weights,
                               bool strict)
    : narrow_weights_(std::make_shared<std::map<DataType, NetParameter>>()) {
  const std::string path = ModelPath(model);
  model_ = std::make_shared<NetParameter>(ReadTestNetFile(path));
  net_ = NetName(path);
  name_ = model_->name();
  weights_ = std::make_shared<NetParameter>();
  const std::unique_ptr<Net> net =
      MakeNet(WithTypeAndBatch(*model_, kFloat, 1), Runtime::Get().cpu(), false);
  if (weights.empty()) {
    FillWeightsAtRandom(net.get());
  } else {
    WeightsOptions options;
    if (strict) options.missing = MissingWeights::kRefuse;
    net->CopyTrainedLayersFrom(weights, options);
  }
  random_ranges_ = net->Ranges().empty();
  if (random_ranges_) ObserveRandomBatch(net.get());
  net->ToProto(weights_.get());
}

NetParameter BenchmarkModel::Typed(DataType type, int64_t batch) const {
  NetParameter typed = WithTypeAndBatch(*model_, type, batch);
  ForEachNet(&typed, MakeFillersConstant);
  return typed;
}

const NetParameter& BenchmarkModel::WeightsIn(DataType type) const {
  if (type == kFloat || type.is_custom()) return *weights_;
  const auto [found, added] = narrow_weights_->try_emplace(type);
  if (added) {
    try {
      const std::unique_ptr<Net> net = MakeNet(Typed(type, 1), Runtime::Get().cpu(), false);
      net->CopyTrainedLayersFrom(*weights_);
      ObserveMissingRanges(net.get());
      net->ToProto(&found->second);
      PackParameters(*net, &found->second);
    } catch (...) {
      narrow_weights_->erase(found);
      throw;
    }
  }
  return found->second;
}

void MeasureCell(const BenchmarkModel& model, Device* device, const BenchmarkSettings& settings,
                 const std::function<bool()>& stop, BenchmarkCell* cell) {
  try {
    device->ReleaseCache();
    Measure(model, device, settings, stop, cell);
  } catch (const std::exception& error) {
    cell->error = OneLine(error.what());
  }
}

}  // namespace caffe
