#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "caffe/quant/range.hpp"

namespace caffe {

class BlobProto;
class NetParameter;

// The content of NetParameter.quantizer. The OpenCL fork's names are understood:
//   X_<layer>_<n>_split_<k>   the copies of blob X after a Split: their union is X's range, or
//                             X@<layer> if a later layer changes X in place
//   <layer>_blobs_<i>_quant   parameter i of a layer
//   <layer>_net_quant         a layer's losses: ignored
// If several layers have one name, <layer> is a name of UniqueLayerNames.
struct StoredRanges {
  std::map<std::string, Range> blobs;
  std::map<std::pair<std::string, int>, ChannelRanges> parameters;  // by layer and index
  // By the zone that quantizers of layers share; the fork's files have no name for such entries.
  std::map<int64_t, Range> zones;
};

// The names of the layers in a file, made unique with UniqueNames.
std::vector<std::string> UniqueLayerNames(const NetParameter& file);
// The name of the range of parameter `index` of a layer, <layer>_blobs_<index>_quant.
std::string ParameterQuantizer(const std::string& layer, int index);

// A MOE layer whose experts compute in grouped layers has one blob for all experts,
// moe/expert/conv; one whose experts compute apart has moe/expert0/conv, moe/expert1/conv, …
// Returns the name of the former for a name of the latter, and other names as they are.
std::string SharedExpertName(const std::string& name);

// Resolves names with the layers of `file` and of `net`. Leaves out invalid ranges.
StoredRanges ReadRanges(const NetParameter& file, const NetParameter& net);

// Throws if a file of this net could not hold ranges of blobs under these names, because two of
// them are equal, or because ReadRanges takes one for something else: the range of a parameter, for
// instance.
void CheckRangeNames(const NetParameter& net, const std::vector<std::string>& blobs);

// Whether the packed elements of a blob are codes, which need a range: of a quantized type, or of a
// registered one with a scale for each blob.
bool StoresCodes(const BlobProto& blob);
// Parameters may be stored as codes, as in the fork's quantized nets. DecodeParameters converts
// them to float by the ranges of the file: the affine range of a parameter or of each of its output
// channels. Throws, naming layer and parameter, if a range is missing.
bool HasCodedParameters(const NetParameter& file);
void DecodeParameters(NetParameter* file);
// The range of parameter `index` of a layer, which is stored as codes of `type`; the same error.
const ChannelRanges& RangeOfCodes(const StoredRanges& ranges, const std::string& layer, int index,
                                  DataType type);

}  // namespace caffe
