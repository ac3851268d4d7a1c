#pragma once

#include <set>
#include <string>
#include <vector>

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
// `empty` gets the groups without parameters: layers of these names store none.
NetParameter ReadNetHdf5(const std::string& path, std::set<std::string>* empty = nullptr);
// weights_id of the net, which is empty without one.
std::string ReadWeightsIdHdf5(const std::string& path);

// States: /iter, /current_step, /learned_net, /history/<i>. /cortado/state holds the other fields as
// a serialized SolverState.
void WriteSolverStateHdf5(const std::string& path, const SolverState& state);
void WriteSolverStateHdf5(const SolverState& state, Hdf5Writer* file);
SolverState ReadSolverStateHdf5(const std::string& path);

}  // namespace caffe
