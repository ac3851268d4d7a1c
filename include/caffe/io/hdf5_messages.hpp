#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

class Hdf5Writer;
class NetParameter;
class SolverState;

// The name of a layer and the number of its parameters.
struct Hdf5Layer {
  std::string name;
  int parameters;
};

// Why a file with these layers could not be read back: a layer with parameters has no name, or one
// that HDF5 reads as another path, or one that is the path of another layer's parameter. Empty if
// it can be.
std::string Hdf5NameFault(const std::vector<Hdf5Layer>& layers);

// Weights and solver states in BVLC's HDF5 layout.
//
// Weights: /data/<layer>/<i> is parameter i, /diff/<layer>/<i> its gradient, if there is one.
// /cortado/quantizer, our extension, holds the ranges of blobs as a serialized NetParameter,
// /cortado/weights_id the identity of the weights. Parameters without values (a BlobProto with
// neither data nor shape) are omitted, and read back as such. Writing throws Hdf5NameFault.
void WriteNetHdf5(const std::string& path, const NetParameter& net);
// Without a commit.
void WriteNetHdf5(const NetParameter& net, Hdf5Writer* file);
// Whether the values of a parameter of this shape are read; if not, the blob has its shape only. So
// a file cannot take memory for what its reader does not use.
using Hdf5Wants = std::function<bool(const std::string& layer, int index, const Shape& shape)>;
// `empty` gets the groups without parameters: layers of these names store none. Without `wants`,
// all values are read.
NetParameter ReadNetHdf5(const std::string& path, std::set<std::string>* empty = nullptr,
                         const Hdf5Wants& wants = nullptr);
// weights_id of the net, which is empty without one.
std::string ReadWeightsIdHdf5(const std::string& path);

// States: /iter, /current_step, /learned_net, /history/<i>. /cortado/state holds the other fields
// as a serialized SolverState.
void WriteSolverStateHdf5(const std::string& path, const SolverState& state);
void WriteSolverStateHdf5(const SolverState& state, Hdf5Writer* file);
// `wants` gets no layer, and the index of the history blob.
SolverState ReadSolverStateHdf5(const std::string& path, const Hdf5Wants& wants = nullptr);

}  // namespace caffe
