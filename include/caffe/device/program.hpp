#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/kernel.hpp"

namespace caffe {

// The text that a ProgramBuilder makes and a device compiles: complete for the device's compiler,
// but empty on the CPU for bodies of kernels/, which are compiled into the library and found by
// name.
struct ProgramText {
  std::string name;  // for messages: "relu half"
  std::string source;
  std::string options;  // compiler options, separated by spaces
  TypeTriple types;
  std::vector<KernelSignature> kernels;  // as declared, including folded parameters
  std::map<std::string, int64_t> folds;  // folded parameters and their values
};

class Program {
 public:
  virtual ~Program() = default;
  virtual std::unique_ptr<Kernel> CreateKernel(const std::string& name) = 0;
};

}  // namespace caffe
