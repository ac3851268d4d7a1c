#pragma once

#include <string>

namespace caffe {

class NetParameter;
class SolverState;

// Weights and solver states as BVLC lays them out in HDF5.
//
// Weights: /data/<layer>/<i> is parameter i, /diff/<layer>/<i> its gradient, where there is one.
// /cortado/quantizer holds what only we have, the ranges of blobs, as a serialized NetParameter.
// Parameters without any value (BlobProto of neither data nor shape) are left out, and come back so.
void WriteNetHdf5(const std::string& path, const NetParameter& net);
NetParameter ReadNetHdf5(const std::string& path);

// States: /iter, /current_step, /learned_net, /history/<i>. /cortado/state holds the other fields as
// a serialized SolverState.
void WriteSolverStateHdf5(const std::string& path, const SolverState& state);
SolverState ReadSolverStateHdf5(const std::string& path);

}  // namespace caffe
