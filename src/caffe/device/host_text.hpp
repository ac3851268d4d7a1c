#pragma once

#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/kernel.hpp"

namespace caffe {

// The word of a type in host kernels: types of users are compiled by their size, see
// kernels/types/table.h and functions.h.
std::string HostWord(DataType type);

// A kernel text of a caller as C++ without headers, for CompileHostLibrary. Its kernels are the
// functions HostEntryName(kernel), with the arguments of HostKernelEntry::run.
std::string HostText(const TypeTriple& types, const std::string& title, const std::string& text,
                     const std::vector<KernelSignature>& kernels);
std::string HostEntryName(const std::string& kernel);

}  // namespace caffe
