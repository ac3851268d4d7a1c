#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

class NetParameter;

// A range in a file, and the ranges of a parameter's output channels, if they are given.
struct StoredRange {
  double low = 0, high = 0;
  std::vector<double> channel_low, channel_high;
  // Instead of both: scales, from which ParameterRange computes the ranges of the channels.
  std::vector<double> channel_scale;
};

// The content of NetParameter.quantizer. The OpenCL fork's names are understood:
//   X_<layer>_<n>_split_<k>   the copies of blob X after a Split: their union is X's range, or
//                             X@<layer> if a later layer changes X in place
//   <layer>_blobs_<i>_quant   parameter i of a layer
//   <layer>_net_quant         a layer's losses: ignored
// If several layers have one name, <layer> is a name of UniqueLayerNames.
struct StoredRanges {
  std::map<std::string, StoredRange> blobs;
  std::map<std::pair<std::string, int>, StoredRange> parameters;  // by layer and index
  // By the zone that quantizers of layers share; the fork's files have no name for such entries.
  std::map<int64_t, StoredRange> zones;
};

// The names of the layers in a file, made unique with UniqueNames.
std::vector<std::string> UniqueLayerNames(const NetParameter& file);
// The name of the range of parameter `index` of a layer, <layer>_blobs_<index>_quant.
std::string ParameterQuantizer(const std::string& layer, int index);

// Adds a range under a name; ranges of one name are united.
void UniteRange(const StoredRange& range, std::map<std::string, StoredRange>* ranges,
                const std::string& name);

// A MOE layer whose experts compute in grouped layers has one blob for all experts, moe/expert/conv;
// one whose experts compute apart has moe/expert0/conv, moe/expert1/conv, … Returns the name of the
// former for a name of the latter, and other names as they are.
std::string SharedExpertName(const std::string& name);

// Whether the range, and that of each channel, is finite with low <= high. If not, warns with the
// name and returns false: the weights of such a file are still loaded, and a layer that needs the
// range reports that it is missing.
bool IsRange(const std::string& name, const StoredRange& range);

// Resolves names with the layers of `file` and of `net`. Leaves out invalid ranges.
StoredRanges ReadRanges(const NetParameter& file, const NetParameter& net);

// Throws if a file of this net could not hold ranges of blobs under these names, because two of them
// are equal, or because ReadRanges takes one for something else: the range of a parameter, for
// instance.
void CheckRangeNames(const NetParameter& net, const std::vector<std::string>& blobs);

// Parameters may be stored as codes, as in the fork's quantized nets. DecodeParameters converts
// them to float by the ranges of the file: the affine range of a parameter or of each of its output
// channels. Throws, naming layer and parameter, if a range is missing.
bool HasCodedParameters(const NetParameter& file);
void DecodeParameters(NetParameter* file);
// The range of parameter `index` of a layer, which is stored as codes of `type`; the same error.
const StoredRange& RangeOfCodes(const StoredRanges& ranges, const std::string& layer, int index,
                                DataType type);

// The range under which a parameter with these scales is stored: [-128 s, 127 s], likewise for 16
// bits, so that the affine formula returns the scale and the middle zero point.
StoredRange ParameterRange(const std::vector<double>& scales, int code_max);

}  // namespace caffe
