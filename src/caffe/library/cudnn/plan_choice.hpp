#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/library/cudnn/conv_graph.hpp"
#include "caffe/library/epilogue_pass.hpp"

namespace caffe::cudnn {

// The arrays of a call.
struct Operands {
  DevicePtr x, w, y, bias, residual, workspace;
};

// The engine that computes one pass.
struct Chosen {
  bool fused = false;                // see ConvGraph
  std::unique_ptr<ConvGraph> graph;  // whose descriptors the plan uses
  std::unique_ptr<ConvPlan> plan;
  std::string configuration;
};

// A call's arrays in the form in which cuDNN takes them. It is made again if an address changes.
class Pack {
 public:
  void Execute(Session* session, const Chosen& chosen, const Operands& o);

 private:
  Descriptor pack_;
  std::vector<void*> pointers_;
  void* workspace_ = nullptr;
};

// The epilogue as a pass over y.
class StagesPass {
 public:
  StagesPass(Device* device, const ConvDescriptor& d);
  void Run(DevicePtr y, DevicePtr bias, const EpilogueOperands& operands) const;

 private:
  const int64_t channels_, y_row_, positions_, rows_, batch_;
  const bool last_;
  std::unique_ptr<EpiloguePass> pass_;
};

// Chooses how a pass is computed: by the fastest of cuDNN's engines, from the tuning table or by
// measurement. The choices of the process are shared by all operators, and plans are kept, because
// making one may compile a kernel. Throws LibraryRefusal if no engine computes the pass.
std::shared_ptr<const Chosen> ChoosePlan(Device* device, Session* session, const ConvDescriptor& d,
                                         ConvPass pass);

// Whether cuDNN has an engine for the pass, without measuring.
bool HasPlan(Device* device, const ConvDescriptor& d, ConvPass pass);

}  // namespace caffe::cudnn
