#pragma once

#include "caffe/net/wiring.hpp"

namespace caffe {

class NetRunState;

// Writes the state that layers need to continue a run exactly, besides parameters: positions in
// data, seeds, counters.
void WriteRunState(const Wiring& net, NetRunState* state);
// Layers are found by name, those of one name in their order. A layer that the state does not
// contain is not changed.
void ReadRunState(const Wiring& net, const NetRunState& state);

}  // namespace caffe
