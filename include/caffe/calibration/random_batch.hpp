#pragma once

#include <functional>

namespace caffe {

class Net;

// Random numbers for the inputs with more than one axis; others, such as labels, stay 0.
void FillInputsAtRandom(Net* net);

// Random weights with which values neither vanish nor grow from layer to layer.
void FillWeightsAtRandom(Net* net);

// A net in float observes the ranges of its blobs on one random batch.
void ObserveRandomBatch(Net* net);

// For measuring a net some of whose blobs of codes have no range. A float net with its layers and
// weights, or with random weights that the net then gets, too, observes one random batch, and the
// blobs without a range get those ranges. Returns whether there were such blobs, with a warning:
// the outputs of the net mean nothing then.
bool ObserveMissingRanges(Net* net, bool random_weights = false);
// The same with data of the caller: `forward` runs the float net, which has the weights of the net,
// on them. Nothing is logged.
bool ObserveMissingRanges(Net* net, const std::function<void(Net* observer)>& forward);

}  // namespace caffe
