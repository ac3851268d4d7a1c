#include "caffe/calibration/quantize_net.hpp"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "caffe.pb.h"
#include "caffe/calibration/pack_parameters.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/observer.hpp"
#include "equalization.hpp"
#include "weight_changes.hpp"

namespace caffe {
namespace {

std::unique_ptr<Net> TestNet(const NetParameter& model, Device* device) {
  NetOptions options;
  options.device = device;
  options.phase = TEST;
  options.seed = 1;
  return std::make_unique<Net>(model, options);
}

void RemoveTypes(LayerParameter* layer) {
  layer->clear_bottom_data_type();
  layer->clear_compute_data_type();
  layer->clear_top_data_type();
  layer->clear_bottom_data_type_name();
  layer->clear_compute_data_type_name();
  layer->clear_top_data_type_name();
}

void SetTypes(DataType type, LayerParameter* layer) {
  RemoveTypes(layer);
  const auto number = static_cast<DataTypeProto>(type.info().proto);
  layer->set_bottom_data_type(number);
  layer->set_compute_data_type(number);
  layer->set_top_data_type(number);
}

bool Contains(const google::protobuf::RepeatedPtrField<std::string>& list,
              const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool IsInPlace(const LayerParameter& layer) {
  return layer.top_size() > 0 && Contains(layer.bottom(), layer.top(0));
}

// The layers of phase TEST, without weights and ranges.
NetParameter Layers(const Net& net) {
  NetParameter layers;
  net.ToProto(&layers);
  for (LayerParameter& layer : *layers.mutable_layer()) layer.clear_blobs();
  return layers;
}

// The same with Input layers instead of data layers.
NetParameter WithInputs(const Net& net) {
  NetParameter layers = Layers(net);
  for (LayerParameter& layer : *layers.mutable_layer()) {
    if (!TraitsOf(layer.type()).data) continue;
    LayerParameter input;
    input.set_name(layer.name());
    input.set_type("Input");
    for (const std::string& top : layer.top()) {
      input.add_top(top);
      BlobShape* shape = input.mutable_input_param()->add_shape();
      for (const int64_t extent : net.BlobByName(top)->shape()) shape->add_dim(extent);
    }
    layer = input;
  }
  return layers;
}

std::vector<float> RealValues(const BlobBase& blob) {
  std::vector<float> values(blob.count());
  const int64_t count = blob.count();
  if (blob.type().is_quantized()) {
    const auto read = [&](const auto* codes) {
      const QuantRange& range = blob.range();
      for (int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(range.scale * (codes[i] - range.zero));
      }
    };
    if (blob.type() == kQuant8) {
      read(static_cast<const uint8_t*>(blob.host_data()));
    } else {
      read(static_cast<const uint16_t*>(blob.host_data()));
    }
  } else {
    ConvertElements(blob.type(), blob.host_data(), kFloat, values.data(), count);
  }
  return values;
}

void Fill(const Batch& batch, Net* net) {
  for (const int index : net->input_blob_indices()) {
    const std::string& name = net->blob_names()[index];
    BlobBase& blob = *net->blobs()[index];
    const auto found = batch.values.find(name);
    CAFFE_CHECK(found != batch.values.end(), "a batch has no values for input ", name);
    const std::vector<float>& values = found->second;
    const auto given = static_cast<int64_t>(values.size());
    const int64_t item = blob.count() / std::max<int64_t>(blob.num_axes() ? blob.shape(0) : 1, 1);
    CAFFE_CHECK(given > 0 && given <= blob.count() && given % item == 0, "a batch has ", given,
                " values for input ", name, " of shape ", blob.shape_string(),
                "; give that many, or fewer items");
    // A short batch is repeated.
    std::vector<double> numbers(blob.count());
    for (int64_t i = 0; i < blob.count(); ++i) numbers[i] = values[i % given];
    blob.SetData(numbers);
  }
}

// The classes with the largest scores.
std::vector<int> Classes(const Net& net, const std::string& scores, int64_t items) {
  const BlobBase& blob = *net.BlobByName(scores);
  const std::vector<float> values = RealValues(blob);
  const int64_t count = blob.count() / blob.shape(0);
  std::vector<int> classes;
  for (int64_t i = 0; i < items; ++i) {
    const auto first = values.begin() + i * count;
    classes.push_back(static_cast<int>(std::max_element(first, first + count) - first));
  }
  return classes;
}

double Decibels(double signal, double noise) {
  return noise > 0 ? 10 * std::log10(signal / noise) : INFINITY;
}

// Signal and noise of a blob over the held-out batches.
struct Comparison {
  double signal = 0, noise = 0, product = 0, other = 0;
  double own_noise = 0, clipped = 0, count = 0;

  void Add(const std::vector<float>& real, const std::vector<float>& quantized) {
    for (size_t i = 0; i < real.size(); ++i) {
      const double a = real[i], b = quantized[i];
      signal += a * a;
      other += b * b;
      product += a * b;
      noise += (a - b) * (a - b);
    }
    count += static_cast<double>(real.size());
  }
  void AddOwn(const std::vector<float>& real, const QuantRange& range, DataType type) {
    const double low = range.scale * (type.info().code_min - range.zero),
                 high = range.scale * (type.info().code_max - range.zero), half = range.scale / 2;
    for (const float value : real) {
      const double rounded = std::clamp(std::round(value / range.scale) * range.scale, low, high);
      own_noise += (value - rounded) * (value - rounded);
      clipped += value < low - half || value > high + half;
    }
  }
  double cosine() const {
    const double length = std::sqrt(signal) * std::sqrt(other);
    return length > 0 ? product / length : 1;
  }
};

struct Accuracy {
  std::optional<double> float_top1, top1, agreement;
};

class Quantization {
 public:
  Quantization(const NetParameter& model, const NetParameter& weights, const BatchReader& read,
               const QuantizeOptions& options)
      : given_(model), read_(read), options_(options), weights_(weights) {
    device_ = options.device ? options.device : Runtime::Get().default_device();
  }

  QuantizedNet Run() {
    CAFFE_CHECK(options_.type == kQuant8 || options_.type == kQuant16 || options_.type == kHalf ||
                    options_.type == kBfloat16,
                "a net cannot be quantized to ", options_.type.name(),
                " (known: int8 int16 half bfloat16)");
    MakeFloatNet();
    FindGroups();
    Prepare();
    if (options_.equalize && quantized()) TryEqualization();
    if (options_.max_drop) MeetMaxDrop();
    return Result();
  }

 private:
  struct Chosen {
    ObservedRange range;
    std::string method;
  };

  bool quantized() const { return options_.type.is_quantized(); }

  void Progress(const std::string& what, int64_t done, int64_t all) const {
    if (options_.progress) options_.progress(what, done, all);
  }

  // The weights must have all parameters of the net: fillers would hide what is missing.
  void CheckWeights(const Net& net) const {
    std::set<std::string> names;
    for (const LayerParameter& layer : weights_.layer()) {
      if (layer.blobs_size() > 0) names.insert(layer.name());
    }
    for (const auto& layer : net.layers()) {
      CAFFE_CHECK(layer->blobs().empty() || names.count(layer->name()), "the weights have no ",
                  "parameters for layer '", layer->name(), "' (", layer->type(),
                  "); do they belong to this model?");
    }
  }

  void MakeFloatNet() {
    NetParameter source = given_;
    source.clear_quantizer();
    source.set_data_type(CAFFE_FLOAT);
    source.clear_data_type_name();
    source.mutable_state()->set_quantizer_mode(CAFFE_QUANT_PASSIVE);
    for (LayerParameter& layer : *source.mutable_layer()) RemoveTypes(&layer);
    const auto data_net = TestNet(source, device_);
    model_ = WithInputs(*data_net);
    // Explicit types of layers are the user's choice for the quantized net.
    for (const LayerParameter& layer : given_.layer()) {
      if (layer.has_compute_data_type() || layer.has_bottom_data_type() ||
          layer.has_top_data_type() || layer.has_compute_data_type_name() ||
          layer.has_bottom_data_type_name() || layer.has_top_data_type_name()) {
        own_types_[layer.name()] = layer;
      }
    }
    float_net_ = TestNet(model_, device_);
    CheckWeights(*float_net_);
    for (const auto& [blob, range] : float_net_->Ranges()) given_ranges_[blob] = range;
    for (const auto& [blob, range] : options_.ranges) {
      CAFFE_CHECK(float_net_->has_blob(blob.substr(0, blob.rfind('@'))),
                  "a range is given for blob '", blob, "', but the net has no such blob");
      given_ranges_[blob] = range;
    }
    weights_.clear_quantizer();
    float_net_->CopyTrainedLayersFrom(weights_);
    FindScores();
  }

  void FindScores() {
    for (const LayerParameter& layer : model_.layer()) {
      const LayerTraits& traits = TraitsOf(layer.type());
      if (traits.float_bottoms.empty() || layer.bottom_size() < 2) continue;
      scores_ = layer.bottom(0);
      labels_ = layer.bottom(traits.float_bottoms[0]);
      return;
    }
    for (const int index : float_net_->output_blob_indices()) {
      const BlobBase& blob = *float_net_->blobs()[index];
      if (blob.num_axes() > 1 && blob.count() >= 2 * blob.shape(0)) {
        scores_ = float_net_->blob_names()[index];
      }
    }
  }

  bool Read(int64_t index, Batch* batch) const {
    batch->items = -1;
    if (!read_(index, batch)) return false;
    if (batch->items < 0) {
      CAFFE_CHECK(!float_net_->input_blobs().empty(), "the net has no inputs");
      const BlobBase& first = *float_net_->input_blobs()[0];
      const auto found = batch->values.find(first.name());
      CAFFE_CHECK(found != batch->values.end(), "a batch has no values for input ", first.name());
      batch->items = static_cast<int64_t>(found->second.size()) /
                     std::max<int64_t>(first.count() / first.shape(0), 1);
    }
    const auto labels = batch->values.find(labels_);
    if (batch->labels.empty() && labels != batch->values.end()) {
      for (int64_t i = 0; i < batch->items && i < static_cast<int64_t>(labels->second.size());
           ++i) {
        batch->labels.push_back(static_cast<int>(labels->second[i]));
      }
    }
    return true;
  }

  // Ranges, and weights to be quantized, for the weights of the float net.
  struct Prepared {
    std::unique_ptr<Net> float_net;
    NetParameter changed;
    std::map<std::string, ObservedRange> observed;
    std::map<std::string, Histogram> histograms;
    std::map<std::string, Chosen> ranges;
    int64_t corrected_biases = 0;
  };

  void Prepare() {
    Calibrate();
    ChooseRanges();
    ChangeWeights();
  }

  // The prepared state; the next one begins with a float net of the given weights.
  Prepared Take(const NetParameter& weights) {
    Prepared prepared{std::move(float_net_),  std::move(changed_), std::move(observed_),
                      std::move(histograms_), std::move(ranges_),  report_.corrected_biases};
    ranges_.clear();
    float_net_ = TestNet(model_, device_);
    float_net_->CopyTrainedLayersFrom(weights);
    return prepared;
  }

  // The noise of the scores, or of an output, on the first calibration batch, as a part of them.
  double OutputNoise() {
    const auto net = QuantizedTestNet();
    Comparison comparison;
    Batch batch;
    for (int64_t i = 0; i < calibration_batches_ && comparison.count == 0 && Read(i, &batch); ++i) {
      if (batch.items == 0) continue;
      for (Net* each : {float_net_.get(), net.get()}) {
        Fill(batch, each);
        each->Forward();
      }
      comparison.Add(RealValues(*float_net_->BlobByName(Output())),
                     RealValues(*net->BlobByName(Output())));
    }
    return comparison.noise / std::max(comparison.signal, 1e-300);
  }

  const std::string& Output() const {
    return scores_.empty() ? float_net_->blob_names()[float_net_->output_blob_indices()[0]]
                           : scores_;
  }

  // The square of the difference of the outputs on the current batch, as a part of their square.
  double Change(const Net& other) const {
    Comparison comparison;
    comparison.Add(RealValues(*other.BlobByName(Output())),
                   RealValues(*float_net_->BlobByName(Output())));
    return comparison.noise / std::max(comparison.signal, 1e-300);
  }

  // Prepares the net with equalized channels, too, and takes the one with less noise.
  void TryEqualization() {
    CAFFE_CHECK(given_ranges_.empty(),
                "equalize scales blobs, so that given ranges do not fit: ", "use one of them");
    Equalization equalization(*float_net_);
    if (equalization.blobs().empty()) return;
    const double noise = OutputNoise();
    float_net_->Keep(equalization.blobs());
    Batch batch;
    for (int64_t i = 0; i < calibration_batches_ && Read(i, &batch); ++i) {
      if (batch.items == 0) continue;
      Fill(batch, float_net_.get());
      float_net_->Forward();
      equalization.Add(*float_net_);
      Progress("equalizing channels", i + 1, calibration_batches_);
    }
    NetParameter file;
    float_net_->ToProto(&file);
    file.clear_quantizer();
    report_.equalized_layers = equalization.Apply(&file);
    if (report_.equalized_layers == 0) return;
    Prepared before = Take(file);
    Prepare();
    const double equalized = OutputNoise();
    Read(0, &batch);
    for (Net* each : {before.float_net.get(), float_net_.get()}) {
      Fill(batch, each);
      each->Forward();
    }
    const double change = Change(*before.float_net);
    CAFFE_CHECK(change < 1e-6, "equalized channels changed the float net: relative square ",
                change);
    log::Info(Concat("noise of ", scores_.empty() ? "the output" : scores_,
                     " on a batch: ", Decibels(1, noise), " dB, with equalized channels ",
                     Decibels(1, equalized), " dB"));
    if (equalized < noise) return;
    float_net_ = std::move(before.float_net);
    changed_ = std::move(before.changed);
    observed_ = std::move(before.observed);
    histograms_ = std::move(before.histograms);
    ranges_ = std::move(before.ranges);
    report_.corrected_biases = before.corrected_biases;
    report_.equalized_layers = 0;
  }

  void Calibrate() {
    Batch batch;
    report_.calibration_items = calibration_batches_ = 0;
    float_net_->set_observe(quantized());
    for (int64_t i = 0; i < options_.calibration_batches; ++i) {
      if (!Read(i, &batch)) break;
      ++calibration_batches_;
      if (batch.items == 0) continue;
      Fill(batch, float_net_.get());
      float_net_->Forward();
      report_.calibration_items += batch.items;
      Progress("calibrating", i + 1, options_.calibration_batches);
    }
    CAFFE_CHECK(
        report_.calibration_items > 0,
        "there is no data to calibrate with: no image could be read, or no batch was given");
    histograms_ = float_net_->Histograms();
    observed_ = float_net_->Ranges();
    float_net_->set_observe(false);
  }

  void ChooseRanges() {
    if (!quantized()) return;
    int64_t done = 0;
    for (const auto& [blob, range] : observed_) {
      const auto given = given_ranges_.find(blob);
      Calibration chosen{range.low, range.high, CalibrationMethod::kMinMax};
      if (given != given_ranges_.end()) {
        chosen = {given->second.low, given->second.high, CalibrationMethod::kGiven};
      } else if (histograms_.count(blob)) {
        chosen = caffe::Calibrate(histograms_.at(blob), range.low, range.high, options_.type,
                                  options_.calibration);
      }
      ranges_[blob] = {{chosen.low, chosen.high}, MethodName(chosen.method)};
      Progress("choosing ranges", ++done, static_cast<int64_t>(observed_.size()));
    }
    TieRanges();
  }

  // A blob that only a Concat reads gets the range of the Concat's top: its codes are then copied,
  // while another range would round them a second time.
  void TieRanges() {
    std::map<std::string, int> readers;
    for (const LayerParameter& layer : model_.layer()) {
      for (const std::string& bottom : layer.bottom()) {
        if (!Contains(layer.top(), bottom)) ++readers[bottom];
      }
    }
    for (int i = model_.layer_size(); i-- > 0;) {
      const LayerParameter& layer = model_.layer(i);
      const LayerFacts facts = float_net_->LayerByName(layer.name())->Facts();
      if (!facts.join || !ranges_.count(layer.top(0))) continue;
      for (const std::string& bottom : layer.bottom()) {
        const auto found = ranges_.find(bottom);
        if (found == ranges_.end() || readers[bottom] != 1 || found->second.method == "given") {
          continue;
        }
        found->second = {ranges_.at(layer.top(0)).range, "tied"};
      }
    }
  }

  void ChangeWeights() {
    float_net_->ToProto(&changed_);
    changed_.clear_quantizer();
    if (!quantized()) return;
    if (!options_.bias_correction) return;
    BiasCorrection correction(model_, *float_net_, changed_, options_.type, device_);
    float_net_->Keep(float_net_->blob_names());
    Batch batch;
    for (int64_t i = 0; i < calibration_batches_ && Read(i, &batch); ++i) {
      if (batch.items == 0) continue;
      Fill(batch, float_net_.get());
      float_net_->Forward();
      correction.Add(*float_net_);
      Progress("correcting biases", i + 1, calibration_batches_);
    }
    report_.corrected_biases = correction.Apply(&changed_);
  }

  // A group is a layer with weights and the layers without weights that follow it.
  void FindGroups() {
    std::map<std::string, int> group_of_blob;
    std::set<int> inner;  // groups that another group reads
    for (const LayerParameter& layer : model_.layer()) {
      const bool weighted = float_net_->LayerByName(layer.name())->Facts().weighted.has_value();
      int group = -1;
      for (const std::string& bottom : layer.bottom()) {
        const int source = group_of_blob.count(bottom) ? group_of_blob.at(bottom) : -1;
        if (group < 0) group = source;
        if (weighted || (group >= 0 && source != group)) inner.insert(source);
      }
      if (weighted) {
        group = static_cast<int>(groups_.size());
        groups_.push_back({layer.name()});
      } else if (group >= 0) {
        groups_[group].push_back(layer.name());
      }
      for (const std::string& top : layer.top()) group_of_blob[top] = group;
    }
    if (!quantized() || !options_.float_scores) return;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (inner.count(static_cast<int>(g))) continue;
      for (size_t i = 1; i < groups_[g].size(); ++i) {
        const LayerParameter& layer = float_net_->LayerByName(groups_[g][i])->layer_param();
        if (!IsInPlace(layer) && !own_types_.count(layer.name())) {
          fixed_[layer.name()] = kFloat;
        }
      }
    }
  }

  // Adds the types of the quantized net.
  NetParameter Typed(const NetParameter& layers) const {
    NetParameter typed = layers;
    typed.set_data_type(static_cast<DataTypeProto>(options_.type.info().proto));
    typed.clear_data_type_name();
    for (LayerParameter& layer : *typed.mutable_layer()) {
      const LayerTraits& traits = TraitsOf(layer.type());
      if (traits.input) RemoveTypes(&layer);
      if (traits.data) continue;
      const auto own = own_types_.find(layer.name());
      if (own != own_types_.end()) {
        RemoveTypes(&layer);
        if (own->second.has_bottom_data_type())
          layer.set_bottom_data_type(own->second.bottom_data_type());
        if (own->second.has_compute_data_type())
          layer.set_compute_data_type(own->second.compute_data_type());
        if (own->second.has_top_data_type()) layer.set_top_data_type(own->second.top_data_type());
        if (own->second.has_bottom_data_type_name())
          layer.set_bottom_data_type_name(own->second.bottom_data_type_name());
        if (own->second.has_compute_data_type_name())
          layer.set_compute_data_type_name(own->second.compute_data_type_name());
        if (own->second.has_top_data_type_name())
          layer.set_top_data_type_name(own->second.top_data_type_name());
        continue;
      }
      DataType type = options_.type;
      if (fixed_.count(layer.name())) type = fixed_.at(layer.name());
      const auto wide = wider_.find(layer.name());
      if (wide != wider_.end() && type != kFloat) type = wide->second;
      const auto& known = traits.types;
      if (type != options_.type && std::find(known.begin(), known.end(), type) != known.end()) {
        SetTypes(type, &layer);
      }
    }
    return typed;
  }

  NetParameter WithRanges() const {
    NetParameter file = changed_;
    for (const auto& [blob, chosen] : ranges_) {
      QuantizerParameter* quantizer = file.add_quantizer();
      quantizer->set_name(blob);
      quantizer->set_observed_min(chosen.range.low);
      quantizer->set_observed_max(chosen.range.high);
      quantizer->set_method(chosen.method);
    }
    return file;
  }

  std::unique_ptr<Net> QuantizedTestNet() const {
    auto net = TestNet(Typed(model_), device_);
    net->CopyTrainedLayersFrom(WithRanges());
    return net;
  }

  int64_t HeldOutEnd() const {
    return options_.held_out_batches < 0 ? INT64_MAX
                                         : calibration_batches_ + options_.held_out_batches;
  }

  // Runs both nets over the held-out batches.
  Accuracy Measure(bool compare = false) {
    const auto net = QuantizedTestNet();
    if (compare) {
      comparisons_.clear();
      net->Keep(net->blob_names());
      float_net_->Keep(float_net_->blob_names());
    }
    Batch batch;
    int64_t items = 0, labelled = 0, same = 0, right = 0, float_right = 0;
    for (int64_t i = calibration_batches_; i < HeldOutEnd() && Read(i, &batch); ++i) {
      if (batch.items == 0) continue;
      const size_t position = static_cast<size_t>(i - calibration_batches_);
      const bool known = position < float_classes_.size() && !float_classes_[position].empty();
      if (!known || compare) {
        Fill(batch, float_net_.get());
        float_net_->Forward();
        if (!known && !scores_.empty()) {
          float_classes_.resize(std::max(float_classes_.size(), position + 1));
          float_classes_[position] = Classes(*float_net_, scores_, batch.items);
        }
      }
      Fill(batch, net.get());
      net->Forward();
      if (!scores_.empty()) {
        const std::vector<int> mine = Classes(*net, scores_, batch.items);
        const std::vector<int>& theirs = float_classes_[position];
        for (int64_t k = 0; k < batch.items; ++k) {
          same += mine[k] == theirs[k];
          if (k >= static_cast<int64_t>(batch.labels.size())) continue;
          ++labelled;
          right += mine[k] == batch.labels[k];
          float_right += theirs[k] == batch.labels[k];
        }
      }
      items += batch.items;
      if (compare) Compare(*net);
      Progress(compare ? "comparing layers" : "measuring accuracy", i - calibration_batches_ + 1,
               options_.held_out_batches < 0 ? 0 : options_.held_out_batches);
    }
    CAFFE_CHECK(items > 0,
                "no data is left to compare with the float net: ", report_.calibration_items,
                " items were used to calibrate; give more, or ", "calibrate with fewer batches");
    report_.held_out_items = items;
    Accuracy accuracy;
    const auto percent = [](int64_t part, int64_t all) {
      return 100.0 * static_cast<double>(part) / static_cast<double>(all);
    };
    if (!scores_.empty()) accuracy.agreement = percent(same, items);
    if (labelled > 0) {
      accuracy.top1 = percent(right, labelled);
      accuracy.float_top1 = percent(float_right, labelled);
    }
    return accuracy;
  }

  // The range in which a blob is quantized, if it is.
  std::optional<std::pair<QuantRange, DataType>> RangeOf(const Net& net,
                                                         const std::string& name) const {
    const BlobBase& blob = *net.BlobByName(name);
    if (blob.type().is_quantized()) return std::pair{blob.range(), blob.type()};
    const auto chosen = ranges_.find(name);
    if (!quantized() || chosen == ranges_.end()) return std::nullopt;
    // An input is quantized by the layers that read it.
    bool input = false;
    for (size_t i = 0; i < net.layers().size(); ++i) {
      const LayerBase& layer = *net.layers()[i];
      const auto is_blob = [&](int id) { return net.blob_names()[id] == name; };
      const auto& tops = net.top_ids(static_cast<int>(i));
      const auto& bottoms = net.bottom_ids(static_cast<int>(i));
      input |= TraitsOf(layer.type()).data && std::any_of(tops.begin(), tops.end(), is_blob);
      if (!input || !layer.types().in.is_quantized()) continue;
      if (std::none_of(bottoms.begin(), bottoms.end(), is_blob)) continue;
      const ObservedRange& range = chosen->second.range;
      return std::pair{AffineRange(range.low, range.high, layer.types().in), layer.types().in};
    }
    return std::nullopt;
  }

  void Compare(const Net& net) {
    for (const std::string& name : net.blob_names()) {
      const std::vector<float> real = RealValues(*float_net_->BlobByName(name));
      Comparison& comparison = comparisons_[name];
      comparison.Add(real, RealValues(*net.BlobByName(name)));
      if (const auto range = RangeOf(net, name)) {
        comparison.AddOwn(real, range->first, range->second);
      }
    }
  }

  double Drop(const Accuracy& accuracy) const {
    if (accuracy.top1) return *accuracy.float_top1 - *accuracy.top1;
    return 100 - *accuracy.agreement;
  }

  void Widen(const std::vector<int>& order, int64_t count) {
    wider_.clear();
    const auto all = static_cast<int64_t>(order.size());
    for (int64_t i = 0; i < std::min(count, all); ++i) {
      const bool first_type = options_.type == kQuant8 && i >= count - all;
      for (const std::string& layer : groups_[order[i]]) {
        wider_[layer] = first_type ? kQuant16 : kFloat;
      }
    }
  }

  // The groups by the noise that each makes in the scores when only its layers are quantized.
  std::vector<int> GroupsByHarm() {
    const Quantization& self = *this;
    std::vector<double> harm(groups_.size());
    std::vector<int> order(groups_.size());
    std::iota(order.begin(), order.end(), 0);
    Batch batch;
    std::vector<float> real;
    for (int64_t i = calibration_batches_; i < HeldOutEnd() && Read(i, &batch); ++i) {
      if (batch.items > 0) break;
    }
    Fill(batch, float_net_.get());
    float_net_->Forward();
    real = RealValues(*float_net_->BlobByName(scores_));
    for (size_t g = 0; g < groups_.size(); ++g) {
      wider_.clear();
      for (size_t other = 0; other < groups_.size(); ++other) {
        if (other == g) continue;
        for (const std::string& layer : groups_[other]) wider_[layer] = kFloat;
      }
      const auto net = self.QuantizedTestNet();
      Fill(batch, net.get());
      net->Forward();
      Comparison comparison;
      comparison.Add(real, RealValues(*net->BlobByName(scores_)));
      harm[g] = comparison.noise;
      log::Info(Concat("only ", groups_[g][0], " quantized: ", scores_, " has ",
                       Decibels(comparison.signal, comparison.noise), " dB"));
      Progress("finding the layers that hurt", static_cast<int64_t>(g) + 1,
               static_cast<int64_t>(groups_.size()));
    }
    wider_.clear();
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return harm[a] > harm[b]; });
    return order;
  }

  void MeetMaxDrop() {
    CAFFE_CHECK(!scores_.empty(), "max_drop needs a net with scores of classes, but no output of ",
                "this net has several numbers for each item");
    report_.max_drop = options_.max_drop;
    accuracy_ = Measure();
    const double most = *options_.max_drop + 1e-9;
    if (Drop(accuracy_) <= most) return;
    const std::vector<int> order = GroupsByHarm();
    const auto groups = static_cast<int64_t>(order.size());
    // With int8: int16 for 1, …, all groups, then float for 1, …, all.
    const int64_t last = options_.type == kQuant8 ? 2 * groups : groups;
    int64_t fails = 0, meets = -1;
    const auto measure = [&](int64_t count) {
      Widen(order, count);
      const Accuracy accuracy = Measure();
      log::Info(Concat(count, " of ", last, " widenings: top-1 loses ", Drop(accuracy),
                       " percentage points"));
      if (Drop(accuracy) > most) {
        fails = count;
        return false;
      }
      meets = count;
      accuracy_ = accuracy;
      return true;
    };
    for (int64_t count = 1; !measure(count) && count < last; count = std::min(2 * count, last)) {
    }
    while (meets >= 0 && meets - fails > 1) measure(fails + (meets - fails) / 2);
    report_.within_max_drop = meets >= 0;
    Widen(order, meets >= 0 ? meets : last);
  }

  QuantizedNet Result() {
    accuracy_ = Measure(true);
    const auto net = QuantizedTestNet();
    net->UpdateBlobRanges();
    QuantizedNet result;
    NetParameter typed = given_;
    typed.clear_quantizer();
    result.model = std::make_shared<NetParameter>(Typed(typed));
    for (LayerParameter& layer : *result.model->mutable_layer()) layer.clear_blobs();
    auto file = std::make_shared<NetParameter>();
    file->set_name(changed_.name());
    for (const LayerParameter& layer : changed_.layer()) {
      if (layer.blobs_size() == 0) continue;
      LayerParameter* copy = file->add_layer();
      copy->set_name(layer.name());
      copy->set_type(layer.type());
      *copy->mutable_blobs() = layer.blobs();
    }
    report_.float_bytes = static_cast<int64_t>(file->ByteSizeLong());
    *file->mutable_quantizer() = WithRanges().quantizer();
    PackParameters(*net, file.get());
    report_.bytes = static_cast<int64_t>(file->ByteSizeLong());
    result.weights = file;
    FillReport(*net);
    result.report = report_;
    return result;
  }

  void FillReport(const Net& net) {
    report_.net = net.name();
    report_.type = options_.type.name();
    report_.method = quantized() ? MethodName(options_.calibration.method) : "";
    report_.device = device_->info().id;
    report_.scores = scores_;
    report_.float_top1 = accuracy_.float_top1;
    report_.quantized_top1 = accuracy_.top1;
    report_.agreement = accuracy_.agreement;
    for (const auto& [layer, type] : wider_) report_.wider[layer] = type.name();
    for (const LayerParameter& parameter : model_.layer()) {
      if (parameter.top_size() == 0 || IsInPlace(parameter)) continue;
      const LayerBase& layer = *net.LayerByName(parameter.name());
      LayerReport row;
      row.layer = parameter.name();
      row.layer_type = parameter.type();
      row.blob = parameter.top(0);
      row.type = layer.types().compute.name();
      const Comparison& comparison = comparisons_.at(row.blob);
      const auto range = RangeOf(net, row.blob);
      row.low = 1;
      double noise = 0;
      if (range) {
        const auto& [affine, type] = *range;
        row.low = affine.scale * (type.info().code_min - affine.zero);
        row.high = affine.scale * (type.info().code_max - affine.zero);
        const auto chosen = ranges_.find(row.blob);
        if (layer.Facts().range == LayerFacts::Range::kCarried) {
          row.method = "carried";
        } else if (chosen != ranges_.end()) {
          row.method = chosen->second.method;
        }
        row.clipped_percent = 100 * comparison.clipped / std::max(comparison.count, 1.0);
        noise = comparison.own_noise / std::max(comparison.signal, 1e-300);
      }
      if (layer.types().compute.is_quantized() && layer.Facts().weighted) {
        noise += WeightNoise(*float_net_, changed_, row.layer, layer.types().compute);
      }
      row.own_snr = Decibels(1, noise);
      row.snr = Decibels(comparison.signal, comparison.noise);
      row.cosine = comparison.cosine();
      const auto histogram = histograms_.find(row.blob);
      if (histogram != histograms_.end()) row.histogram = histogram->second;
      report_.layers.push_back(std::move(row));
    }
    std::stable_sort(report_.layers.begin(), report_.layers.end(),
                     [&](const LayerReport& a, const LayerReport& b) {
                       return quantized() ? a.own_snr < b.own_snr : a.snr < b.snr;
                     });
  }

  const NetParameter given_;
  const BatchReader& read_;
  const QuantizeOptions& options_;
  Device* device_;
  NetParameter model_;    // with inputs instead of data layers, in float
  NetParameter weights_;  // as given
  NetParameter changed_;  // clipped, with corrected biases
  std::unique_ptr<Net> float_net_;
  std::map<std::string, LayerParameter> own_types_;  // layers with types in the given model
  std::map<std::string, ObservedRange> given_ranges_, observed_;
  std::map<std::string, Histogram> histograms_;
  std::map<std::string, Chosen> ranges_;
  std::vector<std::vector<std::string>> groups_;  // of layers
  std::map<std::string, DataType> fixed_, wider_;
  std::map<std::string, Comparison> comparisons_;
  std::vector<std::vector<int>> float_classes_;  // of the held-out batches
  std::string scores_, labels_;
  int64_t calibration_batches_ = 0;
  Accuracy accuracy_;
  QuantizeReport report_;
};

}  // namespace

struct DataLayerBatches::State {
  NetParameter model;
  Device* device;
  std::unique_ptr<Net> net;
  int64_t next = 0;
};

DataLayerBatches::DataLayerBatches(const NetParameter& model, Device* device)
    : state_(std::make_shared<State>()) {
  state_->model = Layers(*TestNet(model, device));
  state_->device = device;
  auto* layers = state_->model.mutable_layer();
  for (int i = layers->size(); i-- > 0;) {
    if (!TraitsOf(layers->Get(i).type()).data) layers->DeleteSubrange(i, 1);
  }
  state_->model.clear_data_type();
}

DataLayerBatches::~DataLayerBatches() = default;

bool DataLayerBatches::Read(int64_t index, Batch* batch) {
  if (!state_->net || index < state_->next) {
    state_->net = TestNet(state_->model, state_->device);
    state_->next = 0;
  }
  for (; state_->next <= index; ++state_->next) state_->net->Forward();
  batch->labels.clear();
  batch->items = -1;
  for (const std::string& name : state_->net->blob_names()) {
    batch->values[name] = RealValues(*state_->net->BlobByName(name));
  }
  return true;
}

bool HasDataLayers(const NetParameter& model) {
  const NetParameter layers = Layers(*TestNet(model, Runtime::Get().cpu()));
  for (const LayerParameter& layer : layers.layer()) {
    const LayerTraits& traits = TraitsOf(layer.type());
    if (traits.data && !traits.input) return true;
  }
  return false;
}

std::string ImageInput(const NetParameter& model, std::vector<int64_t>* shape) {
  const auto net = TestNet(model, Runtime::Get().cpu());
  const std::vector<int>& inputs = net->input_blob_indices();
  CAFFE_CHECK(inputs.size() == 1, "net ", net->name(), " has ", inputs.size(),
              " inputs; a list of images fills one");
  *shape = net->blobs()[inputs[0]]->shape();
  return net->blob_names()[inputs[0]];
}

QuantizedNet QuantizeNet(const NetParameter& model, const NetParameter& weights,
                         const BatchReader& read, const QuantizeOptions& options) {
  return Quantization(model, weights, read, options).Run();
}

void WriteQuantizedNet(const QuantizedNet& net, const std::string& prefix) {
  AtomicFile weights(prefix + ".caffemodel"), model(prefix + ".prototxt"), json(prefix + ".json"),
      html(prefix + ".html");
  weights.Write(net.weights->SerializeAsString());
  std::string text;
  CAFFE_CHECK(google::protobuf::TextFormat::PrintToString(*net.model, &text), "cannot write ",
              prefix, ".prototxt: the net cannot be printed as text");
  model.Write(text);
  json.Write(ReportJson(net.report));
  html.Write(ReportHtml(net.report));
  for (AtomicFile* file : {&weights, &model, &json, &html}) file->Commit();
}

}  // namespace caffe
