#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace caffe {

class NetParameter;

// A range as files hold it, and those of the output channels of a parameter, if they are given.
struct StoredRange {
  double low = 0, high = 0;
  std::vector<double> channel_low, channel_high;
};

// What NetParameter.quantizer says. The OpenCL fork's names are understood:
//   X_<layer>_<n>_split_<k>   the copies of blob X behind a Split: their union is X's range, or
//                             X@<layer> where a later layer changes X in place
//   <layer>_blobs_<i>_quant   parameter i of a layer
//   <layer>_net_quant         a layer's losses: not used
struct StoredRanges {
  std::map<std::string, StoredRange> blobs;
  std::map<std::pair<std::string, int>, StoredRange> parameters;  // by layer and index
  // By the zone that quantizers of layers share; such entries have no name in the fork's files.
  std::map<int64_t, StoredRange> zones;
};

// Adds a range to those that are known by a name: ranges of one name are united.
void UniteRange(const StoredRange& range, std::map<std::string, StoredRange>* ranges,
                const std::string& name);

// Whether the range, or each of its channels, is one: finite, its ends in order. Warns, with the name,
// if not: weights are worth more than a range, and whoever needs it says that it is missing.
bool IsRange(const std::string& name, const StoredRange& range);

// The layers of `file` and of `net` tell what names stand for. Leaves out what is no range.
StoredRanges ReadRanges(const NetParameter& file, const NetParameter& net);

// Parameters may be stored as codes, as the fork's quantized nets do. DecodeParameters turns them into
// float, by the ranges of the file: the affine range of a parameter or of each of its output
// channels. Throws, naming layer and parameter, if a range is missing.
bool HasCodedParameters(const NetParameter& file);
void DecodeParameters(NetParameter* file);

// The range that a parameter with these scales is stored as: [-128 s, 127 s], 16 bits likewise, so
// that the affine formula gives the scale and the middle zero point back.
StoredRange ParameterRange(const std::vector<double>& scales, int code_max);

}  // namespace caffe
