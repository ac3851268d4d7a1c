#pragma once

#include <string>
#include <vector>

#include "caffe/io/weights_file.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/wiring.hpp"

// Copies parameters of a net from another net or a file, and writes them to a file. Layers are
// found by name; if several have one name, the first matches the first, and so on.
namespace caffe {

// `net` shares the parameters of those layers of `other` that have the same names: one memory.
// Throws if shapes or devices differ.
void ShareWeights(const Wiring& net, const Wiring& other);
// Weights to copy: of a file, or of a message in memory.
struct WeightsSource {
  std::string name;         // for messages: "w.caffemodel" or "the weights of net 'other'"
  const NetParameter* net;  // must outlive the source
  const WeightsFile* file;  // null: all arrays are in `net`
};
// Copies the sources in their order. Throws before anything has changed if a layer's parameters do
// not fit. Returns the layers with parameters for which no source has any, by their indices in
// Wiring::layers; a layer that shares all of its parameters with loaded ones is not among them.
std::vector<int> CopyWeights(const Wiring& net, const std::vector<WeightsSource>& sources,
                             const WeightsOptions& options);
// Opens a caffemodel, or reads an HDF5 file. `whole`: reads a caffemodel whole, too.
WeightsFile ReadWeights(const Wiring& net, const std::string& path, bool whole);
// A hash of the values of all parameters.
std::string WeightsId(const Wiring& net);
// Call this in a catch block after ReadWeights and CopyWeights: rethrows the current exception, or
// one with advice if one of the files is a solver state.
[[noreturn]] void RethrowWithAdvice(const std::vector<std::string>& paths);
// Parameters that were read as packed data, and were not changed since, are written as they were
// stored, or as floats. With gradients, all are written as floats.
enum class Narrow { kAsStored, kAsFloat };
// Adds the parameters to the layers of `parameter`, which must be the net's, and the ranges of
// codes to its quantizers.
void WriteWeights(const Wiring& net, NetParameter* parameter, Narrow narrow, bool write_diff);

// Calls visit(layer, parameter, id) for each parameter of Wiring::layers; `id`: of learnable_ids.
template <class Visit> void ForEachParameter(const Wiring& net, const Visit& visit) {
  size_t next = 0;
  for (size_t i = 0; i < net.layers.size(); ++i) {
    for (size_t b = 0; b < net.layers[i]->blobs().size(); ++b) {
      visit(static_cast<int>(i), static_cast<int>(b), net.learnable_ids[next++]);
    }
  }
}

NetParameter ReadHdf5Weights(const Wiring& net, const std::string& path);
// Removes what an HDF5 file omits: a shared parameter is at its owner only. The layers of
// `parameter` must be the net's.
void RemoveSharedParameters(const Wiring& net, NetParameter* parameter);
// Throws if WriteNetHdf5 would refuse the names of the net's layers.
void CheckHdf5Names(const Wiring& net);

}  // namespace caffe
