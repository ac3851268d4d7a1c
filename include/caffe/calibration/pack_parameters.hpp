#pragma once

#include "caffe/net/net.hpp"

namespace caffe {

// Stores parameters of `file` in the narrow type of their layer in `net`:
//   quant8, quant16  the weights as codes, with the scale of each output channel in the file's
//                    quantizers; loading them gives the same codes
//   half, bfloat16   all parameters of layers with weights but biases, and other large ones
// Weights within a mixture of experts are stored in the data_type of the gating net, and in that of
// the expert nets if they have one in common.
// Parameters stay float if their layer computes in float, if a value does not fit into half, and
// where an output channel is not one block of the weights (transposed InnerProduct, Deconvolution).
void PackParameters(const Net& net, NetParameter* file);

}  // namespace caffe
