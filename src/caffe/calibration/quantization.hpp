#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch_check.hpp"
#include "caffe.pb.h"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/net/net.hpp"
#include "comparison.hpp"
#include "scores.hpp"
#include "test_nets.hpp"

namespace caffe {

struct MeasuredAccuracy {
  std::optional<double> float_top1, top1, agreement;
  int64_t positions = 0, labels = 0;
};

// The state of QuantizeNet. Its functions are defined in files by subject.
class Quantization {
 public:
  Quantization(const NetParameter& model, const NetParameter& weights, const BatchReader& read,
               const QuantizeOptions& options);
  QuantizedNet Run();

 private:
  // Ranges, and weights to be quantized, for the weights of the float net.
  struct Prepared {
    std::unique_ptr<Net> float_net;
    NetParameter changed;
    std::map<std::string, Histogram> histograms;
    std::map<std::string, Range> ranges;
    std::map<int, double> rounding_gains;
    int64_t corrected_biases = 0;
  };

  // The float net's answers at the positions.
  struct Answers {
    std::vector<Answer> answers;
    std::vector<float> labels;
  };

  bool quantized() const { return options_.type.is_quantized(); }
  void Progress(const std::string& what, int64_t done, int64_t all) const {
    if (options_.progress) options_.progress(what, done, all);
  }

  // quantization.cpp
  // The weights must have all parameters of the net: fillers would hide what is missing.
  void CheckWeights(const Net& net) const;
  void MakeFloatNet();
  // Warns if the given weights are codes, or half.
  void NoteStoredTypes();
  // Recurrent layers of the float net begin with a state of 0, as those of a new net do.
  void ResetStates() { float_net_->ReadRunState(first_states_); }
  // Checks the batch.
  bool Read(int64_t index, Batch* batch);
  // Throws if the net cannot have images of another height and width, as those of the batch are.
  void CheckOtherSizes(const Batch& batch);
  // After a forward of the float net: checks the labels.
  Answers FloatAnswers(const Batch& batch, int64_t index) const;
  QuantizedNet Result();
  void FillReport(const Net& net);

  // prepare_net.cpp
  void Prepare();
  void Calibrate();
  void ChooseRanges();
  // Throws if a blob that will be quantized never had a finite value.
  void CheckRanges();
  // A blob that only a Concat reads gets the range of the Concat's top: its codes are then copied,
  // while another range would round them a second time. See Wiring::TiedRanges.
  void TieRanges();
  // Runs the float net with all blobs kept.
  void ForEachCalibrationBatch(const char* what, const std::function<void()>& function);
  // Chooses codes that reconstruct the layers' sums, where they are better than the nearest ones.
  void RoundWeights();
  void ChangeWeights();

  // try_equalization.cpp
  // The prepared state; the next one begins with a float net of the given weights.
  Prepared Take(const NetParameter& weights);
  // The noise of the scores, or of an output, on the first calibration batch, as a part of them.
  double OutputNoise();
  const std::string& Output() const;
  // The square of the difference of the outputs on the current batch, as a part of their square.
  double Change(const Net& other) const;
  // Prepares the net with equalized channels, too, and takes the one with less noise.
  void TryEqualization();

  // tune_ranges.cpp
  double ScoreNoise(const std::vector<Batch>& batches,
                    const std::vector<std::vector<float>>& exact) const;
  // Makes a range narrower or wider as long as the noise becomes less than `least`; returns whether
  // it changed.
  bool TuneRange(const std::string& blob, const std::function<double()>& noise, double* least);
  void TuneRanges();

  // typed_net.cpp
  // A group is a layer with weights and the layers without weights that follow it.
  void FindGroups();
  void SetNetType(NetParameter* net) const;
  // Sets the types that a layer of model_ has in the quantized net.
  void SetLayerTypes(int index, LayerParameter* layer) const;
  // model_, and the given net, with the types of the quantized net.
  NetParameter TypedModel() const;
  NetParameter TypedGiven() const;
  // Whether a layer computes in options_.type, for which its weights were changed.
  bool InWantedType(int layer) const;
  // changed_, with the float net's weights in layers of other types: rounding adapted to 8 bits, and
  // biases corrected for it, would only add noise there.
  NetParameter FittingWeights() const;
  // Takes them, and what the report says about changed weights.
  void KeepFittingWeights();
  NetParameter WithRanges() const;
  // Stores weights in narrow types.
  void Pack(const Net& net, NetParameter* file) const;
  // With weights as they are written.
  std::unique_ptr<Net> QuantizedTestNet() const;

  // measure_net.cpp
  int64_t HeldOutEnd() const;
  // Runs both nets over the held-out batches.
  MeasuredAccuracy Measure(bool compare = false);
  // The range in which a blob is quantized, if it is.
  std::optional<std::pair<QuantRange, DataType>> RangeOf(const Net& net,
                                                         const std::string& name) const;
  void Compare(const Net& net);

  // max_drop.cpp
  // Warns if a single item is more than max_drop.
  void WarnOfResolution() const;
  double Drop(const MeasuredAccuracy& accuracy) const;
  void Widen(const std::vector<int>& order, int64_t count);
  // The groups by the noise that each makes in the scores when only its layers are quantized.
  std::vector<int> GroupsByHarm();
  void MeetMaxDrop();

  const NetParameter given_;
  const BatchReader& read_;
  const QuantizeOptions& options_;
  Device* device_;
  // The layers of phase TEST, with inputs instead of data layers, in float. Below, layers are indices
  // in model_; the nets and weights that are made of it have the same ones. Names may repeat.
  NetParameter model_;
  std::vector<int> given_layers_;         // in given_
  NetParameter weights_;                  // as given
  NetParameter changed_;                  // with rounded weights and corrected biases
  std::map<int, double> rounding_gains_;  // of layers with other codes than the nearest, in dB
  std::unique_ptr<Net> float_net_;
  NetRunState first_states_;                 // of the float net before its first forward
  std::map<int, LayerParameter> own_types_;  // layers with types in the given model
  std::map<int, MOEParameter> mixtures_;     // with the types in the given model
  std::map<std::string, Histogram> histograms_;
  std::map<std::string, Range> given_ranges_, ranges_;
  std::vector<std::vector<int>> groups_;  // of layers
  std::map<int, DataType> fixed_, wider_;
  std::map<std::string, Comparison> comparisons_;
  std::map<int64_t, Answers> float_answers_;  // of held-out batches, as far as they are kept
  int64_t kept_answers_ = 0;
  Scores class_scores_;
  std::string scores_;  // its blob
  BatchCheck batch_check_;
  bool takes_other_sizes_ = false;  // CheckOtherSizes has found it out
  int64_t calibration_batches_ = 0;
  MeasuredAccuracy accuracy_;
  QuantizeReport report_;
};

}  // namespace caffe
