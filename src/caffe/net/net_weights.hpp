#pragma once

#include <string>
#include <vector>

#include "caffe/net/wiring.hpp"

// Parameters of a net that come from another net or from a file, and go to a file. Layers are known by
// their names; of several with one name the first goes to the first, and so on.
namespace caffe {

// The parameters of `net` become those of `other` where layers have the same name: one memory. Throws
// if shapes or devices differ.
void ShareWeights(const Wiring& net, const Wiring& other);
// Throws before anything has changed if a layer's parameters do not fit.
void CopyWeights(const Wiring& net, const NetParameter& trained);
// The file of a list of weight files separated by commas.
std::vector<std::string> SplitPaths(const std::string& paths);
// A caffemodel, or an HDF5 file.
NetParameter ReadWeights(const Wiring& net, const std::string& path);
// Called in a catch block behind ReadWeights and CopyWeights: throws the current exception again, or
// one with advice if the file is a solver state.
[[noreturn]] void RethrowWithAdvice(const std::string& path);
// Adds the parameters to the layers of `parameter`, which are those of the net.
void WriteWeights(const Wiring& net, NetParameter* parameter, bool write_diff);

NetParameter ReadHdf5Weights(const Wiring& net, const std::string& path);
// Writes the weights in `parameter`, which are those of the net.
void WriteHdf5Weights(const Wiring& net, NetParameter parameter, const std::string& path);

}  // namespace caffe
