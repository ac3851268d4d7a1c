#pragma once

#include <memory>

#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/gemm.hpp"

namespace caffe {

class Device;

// The epilogue of a product as a separate launch, for libraries without epilogues.
class GemmEpilogue {
 public:
  GemmEpilogue(Device* device, const GemmDescriptor& descriptor);
  // In place on C; nothing if the epilogue is empty.
  void Run(const GemmArguments& arguments) const;

 private:
  GemmDescriptor d_;
  std::unique_ptr<EpiloguePass> pass_;
};

}  // namespace caffe
