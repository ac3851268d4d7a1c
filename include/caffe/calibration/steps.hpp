#pragma once

#include "caffe/calibration/comparison.hpp"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/calibration/scores.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

// The steps of QuantizeNet: values, and functions that make each value from those before it. A
// value does not change after it is made; only the blobs of its nets do. Layers are indices in
// FloatNet::model; the nets and the weights that are made of it have the same ones. Names may
// repeat.

class CheckedBatches;
class NetParameter;
class NetRunState;

// Ranges by the names of Net::RangeNames.
using RangeMap = std::map<std::string, Range>;

// The net in float. It reads its data from inputs.
struct FloatNet {
  std::shared_ptr<const NetParameter> given;
  std::shared_ptr<const NetParameter> model;  // layers of phase TEST, inputs instead of data layers
  std::vector<int> given_layers;              // those of `model` in `given`
  RangeMap ranges;                            // that are given, and are not calibrated
  std::string stored_types;  // narrow types in which the given weights are stored, for messages
  Scores scores;
  std::shared_ptr<Net> net;
  std::shared_ptr<const NetRunState> first_states;  // before the first forward
  Device* device = nullptr;

  // The blob of the scores, or an output.
  const std::string& output() const {
    return scores.blob.empty() ? net->blob_names()[net->output_blob_indices()[0]] : scores.blob;
  }
  // Recurrent layers begin with a state of 0, as those of a new net do.
  void Restart() const { net->ReadRunState(*first_states); }
};

// The values of the float net on the calibration data. Ranges and histograms are empty if the type
// needs none.
struct Observed {
  int64_t batches = 0;  // that were read, the empty ones included
  int64_t items = 0;
  RangeMap ranges;
  std::map<std::string, Histogram> histograms;
};

// The types of the quantized net.
struct LayerTypes {
  DataType type;                  // that is wanted
  std::set<int> float_layers;     // those behind the scores
  std::map<int, DataType> wider;  // other types than the wanted one, see MeetMaxDrop
  bool dynamic = false;           // CalibrationMethod::kDynamic, without ranges
  bool power_of_two = false;      // scales of blobs and of weights that are stored as codes
};

// The weights that are quantized, in float.
struct ChangedWeights {
  std::shared_ptr<NetParameter> file;  // with rounded weights and corrected biases
  std::map<int, double> gains;         // of layers with other codes than the nearest, in dB
  int64_t corrected_biases = 0;
};

// All that a quantized net is made of.
struct Prepared {
  FloatNet net;
  LayerTypes types;
  Observed observed;
  RangeMap ranges;
  ChangedWeights weights;
  int64_t equalized_layers = 0, tuned_ranges = 0;
  bool within_max_drop = true;
};

struct TypedNet {
  std::shared_ptr<NetParameter> model;  // as given, with types
  std::shared_ptr<NetParameter> file;   // packed weights, and ranges
  int64_t float_bytes = 0;              // of the same weights in float
  std::shared_ptr<Net> net;             // with inputs; it has loaded the file
};

// The results of both nets on the held-out batches.
struct Accuracy {
  int64_t items = 0, positions = 0, labels = 0;
  int64_t same = 0, right = 0, float_right = 0;  // of the positions, and of the labels
  std::map<std::string, Comparison> blobs;

  // Percentages, if there is something to count.
  std::optional<double> agreement() const { return Percent(same, positions); }
  std::optional<double> top1() const { return Percent(right, labels); }
  std::optional<double> float_top1() const { return Percent(float_right, labels); }
  static std::optional<double> Percent(int64_t part, int64_t all) {
    if (all == 0) return std::nullopt;
    return 100.0 * static_cast<double>(part) / static_cast<double>(all);
  }
};

// The float net's answers at the positions of a batch.
struct FloatAnswers {
  std::vector<Answer> answers;
  std::vector<float> labels;
};

// float_net.cpp. Warns if the given weights are codes, or half.
FloatNet MakeFloatNet(const NetParameter& model, NetParameter weights,
                      const QuantizeOptions& options);
// Throws if the range is not one of two finite numbers.
void CheckRange(const std::string& blob, const Range& range);
// Throws if the net has no blob of a name.
void CheckRangeNames(const Net& net, const RangeMap& ranges);

// ranges.cpp
// Checks the labels, too.
Observed Observe(const FloatNet& net, CheckedBatches* batches, const QuantizeOptions& options);
// Runs the float net on the calibration data with all blobs kept, and calls the function after each
// forward.
void ForEachForward(const FloatNet& net, const Observed& observed, CheckedBatches* batches,
                    const char* what, const std::function<void()>& function);
RangeMap ChooseRanges(const FloatNet& net, const Observed& observed,
                      const QuantizeOptions& options);
// A blob that only a Concat reads gets the range of the Concat's top: its codes are then copied,
// while another range would round them a second time. See Wiring::TiedRanges.
RangeMap Tied(const FloatNet& net, RangeMap ranges);
// Throws if a blob that will be quantized never had a finite value.
void CheckRanges(const Prepared& prepared, CheckedBatches* batches);

// change_weights.cpp
ChangedWeights ChangeWeights(const FloatNet& net, const Observed& observed, CheckedBatches* batches,
                             const QuantizeOptions& options);

// typed_net.cpp
// A group is a layer with weights and the layers without weights that follow it.
std::vector<std::vector<int>> GroupsOf(const FloatNet& net, std::set<int>* read_by_others);
LayerTypes TypesOf(const FloatNet& net, const QuantizeOptions& options);
// The layers of `model` with the types of the quantized net.
NetParameter TypedModel(const FloatNet& net, const LayerTypes& types);
// Changed weights, with the float net's ones in layers of other types than the wanted one: rounding
// adapted to 8 bits, and biases corrected for it, would only add noise there.
ChangedWeights FittingWeights(const FloatNet& net, const LayerTypes& types, ChangedWeights weights);
TypedNet MakeTypedNet(const Prepared& prepared);

// accuracy.cpp
FloatAnswers AnswersOf(const FloatNet& net, const Batch& batch, int64_t index);
// Runs both nets over the held-out batches. Compares all blobs; or the answers alone if `known` is
// given: the float net then runs where its answers are not known, and they are added.
Accuracy Measure(const Prepared& prepared, const TypedNet& typed, CheckedBatches* batches,
                 const QuantizeOptions& options, std::map<int64_t, FloatAnswers>* known = nullptr);
// The range in which a blob of the quantized net is rounded, if it is.
std::optional<std::pair<QuantRange, DataType>> RangeOf(const Net& net, const Prepared& prepared,
                                                       const std::string& name);

// make_report.cpp
QuantizeReport MakeReport(const Prepared& prepared, const TypedNet& typed, const Accuracy& accuracy,
                          const QuantizeOptions& options);

// Steps that try others. Each returns the better ones.
// equalize_net.cpp: with equalized channels, if the output has less noise then.
Prepared Equalize(Prepared given, CheckedBatches* batches, const QuantizeOptions& options);
// tune_ranges.cpp: with ranges that make less noise in the scores.
Prepared TuneRanges(Prepared prepared, CheckedBatches* batches, const QuantizeOptions& options);
// max_drop.cpp: with wider types for the layers that hurt most.
Prepared MeetMaxDrop(Prepared prepared, CheckedBatches* batches, const QuantizeOptions& options);

// quantize_net.cpp
Prepared Prepare(FloatNet net, CheckedBatches* batches, const QuantizeOptions& options);

}  // namespace caffe
