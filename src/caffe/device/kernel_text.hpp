#pragma once

#include <set>
#include <string>
#include <vector>

#include "caffe/device/kernel.hpp"

namespace caffe {

// The files of kernels/ embedded at build time, by path without the extension ("neuron/relu",
// "dialect/opencl"). If CAFFE_KERNELS names a folder, they are read from there.
const std::string& KernelText(const std::string& path);
std::vector<std::string> KernelTextPaths();

// KernelText(path) as compilers read it at run time: each line `#include "folder/file.h"` is
// replaced by the text of that file of kernels/ unless `included` holds it already; it holds it
// afterwards. #line names the files in compile errors.
std::string KernelTextWithIncludes(const std::string& path, std::set<std::string>* included);
// The same for a text that is not one of kernels/, under the name `title`.
std::string TextWithIncludes(const std::string& title, const std::string& text,
                             std::set<std::string>* included);

// The heads of all kernels that a body declares; `title` names it in messages. Throws on a head
// that does not follow the dialect.
std::vector<KernelSignature> ParseKernelHeads(const std::string& title, const std::string& text);

// The body for OpenCL and CUDA: every head KERNEL(name, a, b) becomes KERNEL(name)(a, b), because
// NVIDIA's OpenCL has no variadic macros, and folded parameters are removed.
std::string RewriteKernelHeads(const std::string& text,
                               const std::vector<std::string>& folded_parameters);

}  // namespace caffe
