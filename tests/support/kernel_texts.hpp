#pragma once

#include <set>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

// The files of kernels/ that declare kernels: those whose first line names their types.
std::vector<std::string> KernelBodies();

// Those whose kernels do not all run on the host only.
std::vector<std::string> BodiesForDevices();

// The types that its first line names: the float kinds, the quantized ones, or both; none for other
// groups.
std::vector<DataType> BodyTypes(const std::string& path);

// The types of programs of the body.
std::set<TypeTriple> BodyTriples(const std::string& path);

// The folder in tests/ whose tests launch a body's kernels: from its line `//! tests:`, otherwise
// "layers".
std::string BodyTests(const std::string& path);

// Whether a kernel of a body is launched on the CPU (`host`) or on other devices, from the body's
// lines `//! runs:`.
bool RunsOn(const std::string& path, const std::string& kernel, bool host);

// The complete text of a body in every type that its first line names, and of bodies that an
// operator completes with defines, the texts of that operator. `fold`: FOLD parameters are folded.
std::vector<ProgramText> KernelTexts(const std::string& backend, const std::string& path,
                                     bool fold);

// Returns the texts of a body in a type of a user, for the groups float, master, narrow and pairs,
// and for blas/gemm, blas/chain, neuron/function and conv/depthwise. Empty for other bodies.
std::vector<ProgramText> CustomTexts(const std::string& backend, const std::string& path,
                                     DataType type);

// A path as the name of a parameterised test.
std::string BodyName(const std::string& path);

}  // namespace caffe
