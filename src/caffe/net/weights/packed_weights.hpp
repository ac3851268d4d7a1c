#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "caffe/io/weights_file.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/quant/packed_parameter.hpp"
#include "caffe/quant/stored_ranges.hpp"

// Parameters that a file stores as packed data: of half kinds, or as codes.
namespace caffe {

class BlobProto;
class NetParameter;

// Reads packed parameters of a file. A layer of phase TEST that computes in the stored type keeps
// the elements as they are, see PackedParameter; other layers get floats.
class PackedReader {
 public:
  // `file` may be null: then all arrays are in `trained`. With `map`, elements that a layer keeps
  // stay in the file if they can.
  PackedReader(const NetParameter& trained, const WeightsFile* file, bool map);

  // The elements of packed data, blob number `index` of the file; -1 if the blob has none.
  int64_t Elements(const BlobProto& blob, int index) const;
  // Throws if the range of codes is missing or does not fit. `layer` is the name of
  // UniqueLayerNames that the layer has in the file.
  void Check(const std::string& layer, int parameter, const BlobProto& blob, int index) const;
  // After Check. The blob of `target` that gets the elements.
  void Read(const std::string& layer, int parameter, const BlobProto& blob, int index,
            const LayerBase& target, int target_parameter) const;

 private:
  std::string Where(const std::string& layer, int parameter) const;

  const WeightsFile* file_;
  const bool map_;
  StoredRanges ranges_;
};

// Counts the weights of layers that lose digits between the file and the operators.
class WeightLosses {
 public:
  // Parameter 0 of a layer was read from elements of type `stored`.
  void Add(const LayerBase& layer, DataType stored);
  // A log line for each pair of types.
  void Log(const std::string& net) const;

 private:
  std::map<std::string, int> layers_;  // by the end of the line
};

// Writes a parameter as it was stored, if that is still its content; returns false if not. Ranges
// of codes are added to `net`, under the layer's name of UniqueNames.
bool WritePacked(const LayerBase& layer, const std::string& unique_name, int parameter,
                 BlobProto* blob, NetParameter* net);

}  // namespace caffe
