#pragma once

#include <map>
#include <string>
#include <vector>

#include "caffe/net/wiring.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

// The ranges of each node, from the known ranges by name. A function of its arguments: it follows
// every version of every blob through the net. A version has the name of the blob, or
// <blob>@<layer>; casts, splits and layers that carry codes do not create versions. With
// `placeholders`, codes without a range have [-1, 1].
std::vector<NodeRanges> ResolveRanges(const Wiring& wiring,
                                      const std::map<std::string, Range>& known, bool placeholders);

// For each bottom of a node that joins blobs of codes: whether it has the range of the top. Empty
// for other nodes.
std::vector<bool> TiedBottoms(const Node& node, const NodeRanges& ranges);

}  // namespace caffe
