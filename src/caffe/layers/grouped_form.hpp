#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

class Device;

class LayerParameter;

// The layers of an expert net that can compute the rows of all experts: those that compute each
// item by itself and have no parameters (LayerTraits::per_item), as they are, and those with a
// grouped form (LayerTraits::grouped_form), which has the parameters of all experts.

// Why these layers cannot; empty if they can.
std::string WhyNotGrouped(const std::vector<LayerParameter>& layers);
// Changes a layer to its grouped form, if it has one; returns the number of blobs that each expert
// has in it, or 0. `experts` are the layers of the experts, of which learning rates are taken;
// `select` of them compute each item; `offsets` is the blob with the first row of each expert.
int MakeGrouped(const std::vector<const LayerParameter*>& experts, int64_t select,
                const std::string& offsets, LayerParameter* layer);
// Why no library of the device computes the rows of all experts by one operator, for a
// layer that has a grouped form; empty if one does, at least for most shapes. `real`: the type of a
// layer that has none.
std::string WhyNoJointOp(const LayerParameter& layer, DataType real, Device* device);

}  // namespace caffe
