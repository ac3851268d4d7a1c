#pragma once

#include <string>
#include <vector>

#include "caffe/io/weights_file.hpp"
#include "caffe/net/wiring.hpp"

// Copies parameters of a net from another net or a file, and writes them to a file. Layers are
// found by name; if several have one name, the first matches the first, and so on.
namespace caffe {

// `net` shares the parameters of those layers of `other` that have the same names: one memory.
// Throws if shapes or devices differ.
void ShareWeights(const Wiring& net, const Wiring& other);
// Throws before anything has changed if a layer's parameters do not fit.
void CopyWeights(const Wiring& net, const NetParameter& trained);
void CopyWeights(const Wiring& net, const WeightsFile& file, bool map);
// The names in a list of weight files separated by commas.
std::vector<std::string> SplitPaths(const std::string& paths);
// Opens a caffemodel, or reads an HDF5 file.
WeightsFile ReadWeights(const Wiring& net, const std::string& path);
// Call this in a catch block after ReadWeights and CopyWeights: rethrows the current exception, or
// one with advice if the file is a solver state.
[[noreturn]] void RethrowWithAdvice(const std::string& path);
// Parameters that were read as packed data, and were not changed since, are written as they were
// stored, or as floats. With gradients, all are written as floats.
enum class Narrow { kAsStored, kAsFloat };
// Adds the parameters to the layers of `parameter`, which must be the net's, and the ranges of
// codes to its quantizers.
void WriteWeights(const Wiring& net, NetParameter* parameter, Narrow narrow, bool write_diff);

NetParameter ReadHdf5Weights(const Wiring& net, const std::string& path);
// Writes the weights in `parameter`, whose layers must be the net's.
void WriteHdf5Weights(const Wiring& net, NetParameter parameter, const std::string& path);

}  // namespace caffe
