#pragma once

#include <map>

#include "caffe/net/net.hpp"

namespace caffe {

// Stores parameters of `file` in the narrow type of their layer in `net`:
//   quant8, quant16  the weights as codes, with the scale of each output channel in the file's
//                    quantizers; loading them gives the same codes
//   half, bfloat16   all parameters of layers with weights but biases, and other large ones
// Weights within a mixture of experts are stored in the type that the expert nets have in common.
// Those of the gate are stored in the data_type of the gating net, or like those of the experts if
// it has none: the gate then computes in float with rounded weights. `stored` has such types for
// recurrent layers, by their indices in `net`; without an entry they are stored in the type in
// which they compute. Layers of one name match in their order.
// Other parameters stay float if their layer computes in float, if a value does not fit into half,
// and where an output channel is not one block of the weights (transposed InnerProduct,
// Deconvolution).
// With `power_of_two`, scales of codes of layers with weights are powers of two.
void PackParameters(const Net& net, NetParameter* file, const std::map<int, DataType>& stored = {},
                    bool power_of_two = false);

}  // namespace caffe
