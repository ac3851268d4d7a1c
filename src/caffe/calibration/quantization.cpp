// From a float net to the files of a quantized one, and the report.
#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/repeated_names.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "quantization.hpp"
#include "weight_changes.hpp"

namespace caffe {
namespace {

constexpr double kCoarse = 0.5;  // percentage points

}  // namespace

Quantization::Quantization(const NetParameter& model, const NetParameter& weights,
                           const BatchReader& read, const QuantizeOptions& options)
    : given_(model), read_(read), options_(options), weights_(weights) {
  device_ = options.device ? options.device : Runtime::Get().default_device();
}

QuantizedNet Quantization::Run() {
  CAFFE_CHECK(options_.type == kQuant8 || options_.type == kQuant16 || options_.type == kHalf ||
                  options_.type == kBfloat16,
              "a net cannot be quantized to ", options_.type.name(),
              " (known: int8 int16 half bfloat16)");
  CAFFE_CHECK(options_.calibration_batches > 0, "the number of batches to calibrate with is ",
              options_.calibration_batches, "; it must be positive");
  CAFFE_CHECK(!options_.max_drop || (std::isfinite(*options_.max_drop) && *options_.max_drop >= 0),
              "max_drop is ", *options_.max_drop,
              "; it must be a number of percentage points of at least 0");
  for (const auto& [blob, range] : options_.ranges) {
    CAFFE_CHECK(std::isfinite(range.low) && std::isfinite(range.high) && range.low <= range.high,
                "the range of blob '", blob, "' is (", range.low, ", ", range.high,
                "); give its smallest and its largest value, two finite numbers in this order");
  }
  MakeFloatNet();
  FindGroups();
  Prepare();
  if (options_.equalize && quantized()) TryEqualization();
  if (options_.tune_ranges && quantized()) TuneRanges();
  if (options_.max_drop) MeetMaxDrop();
  return Result();
}

void Quantization::CheckWeights(const Net& net) const {
  std::vector<std::string> names;
  for (const LayerParameter& layer : weights_.layer()) names.push_back(layer.name());
  const std::vector<int> found = MatchInOrder(net.layer_names(), names);
  for (size_t i = 0; i < found.size(); ++i) {
    const LayerBase& layer = *net.layers()[i];
    const bool given = found[i] >= 0 && weights_.layer(found[i]).blobs_size() > 0;
    CAFFE_CHECK(layer.blobs().empty() || given, "the weights have no parameters for layer '",
                layer.name(), "' (", layer.type(), "); do they belong to this model?");
  }
}

void Quantization::MakeFloatNet() {
  NetParameter source = given_;
  source.clear_quantizer();
  source.set_data_type(CAFFE_FLOAT);
  source.clear_data_type_name();
  source.mutable_state()->set_quantizer_mode(CAFFE_QUANT_PASSIVE);
  for (LayerParameter& layer : *source.mutable_layer()) {
    RemoveTypes(&layer);
    RemoveNestedTypes(&layer);
  }
  const auto data_net = TestNet(source, device_);
  model_ = WithInputs(*data_net);
  // Explicit types of layers are the user's choice for the quantized net.
  NetParameter all = given_;
  all.mutable_state()->set_phase(TEST);
  FilterNet(all, &given_layers_);
  for (int i = 0; i < model_.layer_size(); ++i) {
    const LayerParameter& layer = given_.layer(given_layers_[i]);
    if (layer.has_moe_param()) mixtures_[i] = layer.moe_param();
    if (layer.has_compute_data_type() || layer.has_bottom_data_type() ||
        layer.has_top_data_type() || layer.has_compute_data_type_name() ||
        layer.has_bottom_data_type_name() || layer.has_top_data_type_name()) {
      own_types_[i] = layer;
    }
  }
  float_net_ = TestNet(model_, device_);
  float_net_->WriteRunState(&first_states_);
  CheckWeights(*float_net_);
  for (const auto& [blob, range] : float_net_->Ranges()) given_ranges_[blob] = range;
  const std::vector<std::string> names = float_net_->RangeNames();
  for (const auto& [blob, range] : options_.ranges) {
    CAFFE_CHECK(std::find(names.begin(), names.end(), blob) != names.end(),
                "a range is given for blob '", blob, "', but the net has no such blob");
    given_ranges_[blob] = range;
  }
  NoteStoredTypes();
  DecodeParameters(&weights_);
  weights_.clear_quantizer();
  float_net_->CopyTrainedLayersFrom(weights_);
  class_scores_ = FindScores(*float_net_, options_.scores);
  scores_ = class_scores_.blob;
  batch_check_ = BatchCheck(*float_net_);
}

void Quantization::NoteStoredTypes() {
  std::set<std::string> types = options_.stored_types;
  for (const LayerParameter& layer : weights_.layer()) {
    for (const BlobProto& blob : layer.blobs()) {
      if (blob.has_packed_data()) types.insert(PackedType(blob).name());
    }
  }
  for (const std::string& type : types) {
    report_.given_weights += (report_.given_weights.empty() ? "" : ", ") + type;
  }
  if (types.empty()) return;
  log::Warning(Concat("the given weights are stored as ", report_.given_weights,
                      " already: the float net of the report computes with them, and is not the ",
                      "net that was trained; give the trained weights"));
}

void Quantization::CheckOtherSizes(const Batch& batch) {
  if (takes_other_sizes_) return;
  // A third size: weights may have as many elements for images of 8 x 10 as for those of 10 x 8.
  constexpr int64_t kMore[] = {0, 0, 32, 64};
  NetParameter model = model_;
  for (LayerParameter& layer : *model.mutable_layer()) {
    if (!TraitsOf(layer.type()).input) continue;
    for (int t = 0; t < layer.top_size(); ++t) {
      const auto found = batch.shapes.find(layer.top(t));
      if (found == batch.shapes.end()) continue;
      InputParameter* input = layer.mutable_input_param();
      auto* dims = input->mutable_shape(input->shape_size() == 1 ? 0 : t)->mutable_dim();
      for (int a = 0; found->second.size() == 4 && a < dims->size(); ++a) {
        dims->Set(a, found->second[a] + kMore[a]);
      }
    }
  }
  const auto net = TestNet(model, device_);
  for (size_t l = 0; l < net->layers().size(); ++l) {
    const auto &other = net->layers()[l]->blobs(), &own = float_net_->layers()[l]->blobs();
    for (size_t b = 0; b < own.size(); ++b) {
      CAFFE_CHECK(other[b]->shape() == own[b]->shape(), "a batch has images of another size than ",
                  "the net, but parameter ", b, " of layer '", net->layer_names()[l],
                  "' depends on it; resize or crop the images");
    }
  }
  takes_other_sizes_ = true;
}

bool Quantization::Read(int64_t index, Batch* batch) {
  *batch = {};
  if (!read_(index, batch)) return false;
  if (batch->items != 0) batch_check_.Check(index, batch);
  if (HasOtherSizes(*batch, *float_net_)) CheckOtherSizes(*batch);
  return true;
}

Quantization::Answers Quantization::FloatAnswers(const Batch& batch, int64_t index) const {
  if (scores_.empty()) {
    CAFFE_CHECK(batch.labels.empty(),
                "there are labels, but the net has no scores of classes: ", class_scores_.why,
                "; give the batches without labels, or name the scores");
    return {};
  }
  const Positions positions = PositionsOf(*float_net_, class_scores_, batch.items);
  return {AnswersOf(*float_net_, class_scores_, positions),
          LabelsOf(*float_net_, class_scores_, positions, batch, index)};
}

QuantizedNet Quantization::Result() {
  KeepFittingWeights();
  accuracy_ = Measure(true);
  const auto net = QuantizedTestNet();
  net->UpdateBlobRanges();
  QuantizedNet result;
  result.model = std::make_shared<NetParameter>(TypedGiven());
  result.model->clear_quantizer();
  for (LayerParameter& layer : *result.model->mutable_layer()) layer.clear_blobs();
  auto file = std::make_shared<NetParameter>();
  file->set_name(changed_.name());
  // Layers are found by name, several of one name in their order, so that none of them is left out.
  std::map<std::string, int> namesakes;
  for (const LayerParameter& layer : changed_.layer()) ++namesakes[layer.name()];
  for (const LayerParameter& layer : changed_.layer()) {
    if (layer.blobs_size() == 0 && namesakes.at(layer.name()) == 1) continue;
    LayerParameter* copy = file->add_layer();
    copy->set_name(layer.name());
    copy->set_type(layer.type());
    *copy->mutable_blobs() = layer.blobs();
  }
  report_.float_bytes = static_cast<int64_t>(file->ByteSizeLong());
  *file->mutable_quantizer() = WithRanges().quantizer();
  Pack(*net, file.get());
  report_.bytes = static_cast<int64_t>(file->ByteSizeLong());
  result.weights = file;
  FillReport(*net);
  result.report = report_;
  return result;
}

void Quantization::FillReport(const Net& net) {
  report_.net = net.name();
  report_.type = options_.type.name();
  report_.method = quantized() ? MethodName(options_.calibration.method) : "";
  report_.device = device_->info().id;
  report_.scores = scores_;
  report_.float_top1 = accuracy_.float_top1;
  report_.quantized_top1 = accuracy_.top1;
  report_.agreement = accuracy_.agreement;
  report_.positions = accuracy_.positions;
  report_.labels = accuracy_.labels;
  if (!accuracy_.top1) {
    report_.no_top1 = scores_.empty() ? class_scores_.why : "the data have no labels";
  }
  if (report_.resolution() > kCoarse) {
    log::Warning(Concat("few held-out items: one ", report_.float_top1 ? "label" : "item", " is ",
                        report_.resolution(), " percentage points of the comparison"));
  }
  const std::vector<std::string> names = UniqueLayerNames(model_);
  for (const auto& [layer, type] : wider_) report_.wider[names[layer]] = type.name();
  for (int l = 0; l < model_.layer_size(); ++l) {
    const LayerParameter& parameter = model_.layer(l);
    if (parameter.top_size() == 0 || IsInPlace(parameter)) continue;
    const LayerBase& layer = *net.layers()[l];
    LayerReport row;
    row.layer = parameter.name();
    row.layer_type = parameter.type();
    row.blob = parameter.top(0);
    row.type = layer.types().compute.name();
    const Comparison& comparison = comparisons_.at(row.blob);
    const auto range = RangeOf(net, row.blob);
    double noise = 0;
    if (range) {
      const auto& [affine, type] = *range;
      row.range.low = affine.scale * (type.info().code_min - affine.zero);
      row.range.high = affine.scale * (type.info().code_max - affine.zero);
      const auto chosen = ranges_.find(row.blob);
      if (layer.Facts().range == LayerFacts::Range::kCarried) {
        row.range.origin = "carried";
      } else if (chosen != ranges_.end()) {
        row.range.origin = chosen->second.origin;
      }
      const double finite = comparison.count - comparison.not_finite;
      row.clipped_percent = 100 * comparison.clipped / std::max(finite, 1.0);
      noise = finite > 0 ? comparison.own_noise / std::max(comparison.signal, 1e-300) : NAN;
    }
    if (layer.types().compute.is_quantized() && layer.Facts().weighted) {
      noise += WeightNoise(*float_net_, changed_, l, layer.types().compute);
      const auto gain = rounding_gains_.find(l);
      const bool adapted = gain != rounding_gains_.end();
      row.rounding = adapted ? "adaround" : "nearest";
      if (adapted) row.rounding_gain = gain->second;
    }
    row.own_snr = Decibels(1, noise);
    row.snr = comparison.snr();
    row.cosine = comparison.cosine();
    row.values = static_cast<int64_t>(comparison.count);
    row.not_finite = static_cast<int64_t>(comparison.not_finite);
    const auto histogram = histograms_.find(row.blob);
    if (histogram != histograms_.end()) row.histogram = histogram->second;
    report_.layers.push_back(std::move(row));
  }
  const auto quality = [&](const LayerReport& row) {
    if (std::isnan(row.snr) || std::isnan(row.own_snr)) return -static_cast<double>(INFINITY);
    return quantized() ? row.own_snr : row.snr;
  };
  std::stable_sort(
      report_.layers.begin(), report_.layers.end(),
      [&](const LayerReport& a, const LayerReport& b) { return quality(a) < quality(b); });
}

}  // namespace caffe
