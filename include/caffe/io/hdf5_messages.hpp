#pragma once

#include <string>

namespace caffe {

class NetParameter;
class SolverState;

// Weights and solver states in BVLC's HDF5 layout.
//
// Weights: /data/<layer>/<i> is parameter i, /diff/<layer>/<i> its gradient, if there is one.
// /cortado/quantizer, our extension, holds the ranges of blobs as a serialized NetParameter.
// Parameters without values (a BlobProto with neither data nor shape) are omitted, and read back as
// such.
void WriteNetHdf5(const std::string& path, const NetParameter& net);
NetParameter ReadNetHdf5(const std::string& path);

// States: /iter, /current_step, /learned_net, /history/<i>. /cortado/state holds the other fields as
// a serialized SolverState.
void WriteSolverStateHdf5(const std::string& path, const SolverState& state);
SolverState ReadSolverStateHdf5(const std::string& path);

}  // namespace caffe
