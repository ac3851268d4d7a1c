#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

class Device;
class NetParameter;

// A net in one type, on one device, with one batch size: what was measured, or why nothing was.
struct BenchmarkCell {
  std::string net;   // the name of the model on the command line, without path and extension
  std::string name;  // of the prototxt
  std::string framework = "Cortado", type, device, device_name;
  bool train = false;  // forward and backward in phase TRAIN; otherwise forward in phase TEST
  int64_t batch = 0;
  // The median and the smallest of `samples` times of a pass.
  double milliseconds = 0, fastest = 0;
  int64_t samples = 0;
  // Bytes; absent: not measured. The largest memory of the net by the allocator, what the net
  // predicts, the same with a memory of its own for each blob, and a caffemodel in this type.
  std::optional<int64_t> memory, predicted, plain_memory, storage;
  bool random_ranges = false;  // of a quantized type: observed on random inputs
  std::string error;           // empty: it was measured

  double images_per_second() const { return static_cast<double>(batch) * 1e3 / milliseconds; }
};

// The percentage of right answers of a net in a type, of a report of `caffe quantize`.
struct BenchmarkAccuracy {
  std::string name;  // of the prototxt
  std::string type;
  std::optional<double> top1, agreement;
};

struct BenchmarkSettings {
  double seconds = 2;  // of measuring a cell
  int samples = 0;     // 0: as many as fit into the seconds
  bool train = false;
  bool plain = false;  // measure plain_memory, too
};

// A model in float. Without files, weights are random, and so that values neither vanish nor grow
// from layer to layer. If the files have no ranges, those of random inputs are observed.
class BenchmarkModel {
 public:
  // `model` is a prototxt, or a name: models/NAME/deploy.prototxt or models/NAME/NAME.prototxt.
  // `weights` are files; later ones replace weights of earlier ones.
  BenchmarkModel(const std::string& model, const std::vector<std::string>& weights, bool strict);

  const std::string& net() const { return net_; }
  const std::string& name() const { return name_; }
  // The model in a type and with a batch size, with constant fillers.
  NetParameter Typed(DataType type, int64_t batch) const;
  const NetParameter& weights() const { return *weights_; }
  // The weights as a file for a net of this type has them: see PackParameters. For types of users
  // they are float.
  const NetParameter& WeightsIn(DataType type) const;
  bool random_ranges() const { return random_ranges_; }

 private:
  std::string net_, name_;
  std::shared_ptr<NetParameter> model_, weights_;
  std::shared_ptr<std::map<DataType, NetParameter>> narrow_weights_;
  bool random_ranges_ = false;
};

// Fills the numbers of a cell, whose net, type, device and batch are set, or its error. `stop` is
// called between passes; if it returns true, the cell has the error "interrupted".
void MeasureCell(const BenchmarkModel& model, Device* device, const BenchmarkSettings& settings,
                 const std::function<bool()>& stop, BenchmarkCell* cell);

}  // namespace caffe
