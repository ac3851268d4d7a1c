#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "caffe/calibration/batch.hpp"
#include "caffe/quant/calibration.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

class Device;
class Net;
class NetParameter;

struct QuantizeOptions {
  DataType type = kQuant8;  // quant8, quant16, half or bfloat16
  CalibrationOptions calibration;
  // The first batches are for calibration, those that follow for comparing with the float net. With
  // method dynamic there are none for calibration, and none need follow.
  // Negative held_out_batches: all that follow.
  int64_t calibration_batches = 10, held_out_batches = -1;
  // Subtracts from each bias the mean error that the rounding of the layer's weights makes on the
  // calibration data (Nagel et al. 2019, "Data-Free Quantization", section 4.2, measured).
  bool bias_correction = false;
  // Chooses for each weight the code above or below it, so that the layer's sums on the calibration
  // data change least (Nagel et al. 2020, "Up or Down? Adaptive Rounding for Post-Training
  // Quantization"), instead of the nearest code. A layer for which that is not better keeps these.
  bool adaround = false;
  // Makes each range narrower or wider as long as that lowers the noise of the scores on two
  // batches of the calibration data. It takes some forwards of the quantized net for each blob.
  bool tune_ranges = false;
  // Scales the channels of blobs between layers with weights, so that large and small channels use
  // the codes equally (Nagel et al. 2019, section 4.1). The float net computes the same.
  bool equalize = false;
  // Layers without weights that follow the last ones with weights compute in float, so that
  // different scores do not become equal codes.
  bool float_scores = true;
  // The most that top-1 may lose, in percentage points: against the labels, or of agreement with
  // the float net if there are no labels. The layers that hurt most get wider types until the
  // held-out batches meet it.
  std::optional<double> max_drop;
  // The blob with the scores of classes that count; empty: see FindScores (scores.hpp).
  std::string scores;
  // How many batches there are; 0: unknown. For progress.
  int64_t batches = 0;
  // The types in which the given weights were stored, if ReadModel has decoded them.
  std::set<std::string> stored_types;
  // Ranges of blobs that are not calibrated.
  std::map<std::string, Range> ranges;
  // Null: the default device.
  Device* device = nullptr;
  // Whether ranges are those of the values of each forward.
  bool dynamic() const { return calibration.method == CalibrationMethod::kDynamic; }
  // Called with what is done now, and how much of it. `all` is 0 if it is unknown.
  std::function<void(const std::string& what, int64_t done, int64_t all)> progress;
  void Show(const std::string& what, int64_t done, int64_t all) const {
    if (progress) progress(what, done, all);
  }
};

// A blob that a layer of the quantized net makes, on the held-out batches.
struct LayerReport {
  std::string layer, layer_type, blob, type;
  Range range;  // with its method in a file, carried, or empty; not known: the blob has no codes
  double clipped_percent = 0;
  // Signal to noise in dB against the float net: of this layer's own quantization, which is the
  // rounding of its blob and of its weights, and of all layers up to this one. Infinite if equal.
  // NaN, as is the cosine, if there is no value to compare, or if one of the nets has an infinity
  // or NaN where the other has none.
  double own_snr = 0, snr = 0;
  double cosine = 1;  // of all elements
  // How many values were compared, and how many of them are infinite or NaN in one of the nets.
  int64_t values = 0, not_finite = 0;
  // How the weights were rounded: nearest or adaround; empty for other layers. By how many dB
  // adaround lowers the squared error of the sums on the calibration data.
  std::string rounding;
  double rounding_gain = 0;
  Histogram histogram;
};

struct QuantizeReport {
  std::string net, type, method, device;
  // The narrow types in which the given weights are stored, "quant8" for instance; empty: float.
  std::string given_weights;
  int64_t calibration_items = 0, held_out_items = 0;
  std::vector<LayerReport> layers;  // the smallest own_snr first
  // Percentages of the positions of the held-out items: an item is one position, or has one for
  // each pixel or time step. Empty without labels or without scores of classes, and no_top1 says
  // why.
  std::string scores, no_top1;
  std::optional<double> float_top1, quantized_top1, agreement;
  int64_t positions = 0, labels = 0;  // that were compared
  // How many percentage points one of them is; labels, if there are some. 0: nothing was compared.
  double resolution() const {
    const int64_t count = float_top1 ? labels : positions;
    return count > 0 ? 100.0 / static_cast<double>(count) : 0;
  }
  std::optional<double> max_drop;
  bool within_max_drop = true;
  std::map<std::string, std::string> wider;  // layers in a wider type, with their type
  int64_t corrected_biases = 0, equalized_layers = 0, tuned_ranges = 0;
  int64_t float_bytes = 0, bytes = 0;  // of the weights, as a caffemodel stores them
  // For method dynamic: milliseconds of a forward, in float, in this mode, and with codes whose
  // ranges are known. 0: not measured.
  double float_ms = 0, dynamic_ms = 0, known_ranges_ms = 0;
  bool power_of_two = false;  // scales
};

struct QuantizedNet {
  // As given, with the types of the quantized net; and ranges and packed weights.
  std::shared_ptr<NetParameter> model, weights;
  QuantizeReport report;
};

// A reader of the data layers of a net in phase TEST. `model` must have no Input layer. It ends
// where a data layer begins again, so that held-out batches have other records than those of the
// calibration: layers with HasRecords say how many they have; of other ones, such as Python layers,
// a batch ends the data if all its items were read before.
class DataLayerBatches {
 public:
  // `source`, if it is not null, is a net of this model that outlives the reader: MemoryData layers
  // read its arrays.
  DataLayerBatches(const NetParameter& model, Device* device, const Net* source = nullptr);
  ~DataLayerBatches();
  bool Read(int64_t index, Batch* batch);
  // The number of batches, of which the last may have fewer items; -1 if it is unknown or endless.
  int64_t batches() const;
  // Divides the batches into those to calibrate with and those to compare: half of a short source,
  // if the number to calibrate with is a default. Throws if none are left to compare.
  void Divide(bool default_number, QuantizeOptions* options) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The blob of the net's only input of 4 axes and its shape, for images; throws if there are
// several.
std::string ImageInput(const NetParameter& model, std::vector<int64_t>* shape);
// Whether the net reads its data by itself.
bool HasDataLayers(const NetParameter& model);

// Calibrates and quantizes a float net; for method dynamic `read` may be null. Throws if a layer
// has no weights in `weights`, if there are no batches, and for types and options that do not fit.
// The nets are not changed.
QuantizedNet QuantizeNet(const NetParameter& model, const NetParameter& weights,
                         const BatchReader& read, const QuantizeOptions& options);

// Writes PREFIX.caffemodel, PREFIX.prototxt, PREFIX.json and PREFIX.html. Existing files are
// replaced only when all are complete. CheckResults (io/input_files.hpp) is for use before the
// work.
std::vector<std::string> QuantizedNetExtensions();
void WriteQuantizedNet(const QuantizedNet& net, const std::string& prefix);

// The report as lines of text, as JSON, and as one HTML page without scripts.
std::string ReportText(const QuantizeReport& report);
std::string ReportJson(const QuantizeReport& report);
std::string ReportHtml(const QuantizeReport& report);

}  // namespace caffe
