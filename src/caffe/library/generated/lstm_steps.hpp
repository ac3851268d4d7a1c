#pragma once

#include <memory>
#include <optional>

#include "caffe/device/kernel.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/lstm.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {

class Device;

// LSTM by one launch for all steps, kernels/neuron/lstm_steps.h, and one for their gradients. The
// gradient of the weights is one product.
class LstmSteps final : public LstmOp {
 public:
  // How the work groups divide units and sequences.
  struct Division {
    bool units_multiply = false;        // by matrix units: weights stay in registers
    int64_t units = 0, rows = 0;        // of a group in one pass; rows 0: as many as it has items
    int64_t parts = 1, row_groups = 0;  // work groups; row_groups 0: one for each `rows`
  };
  // The division for matrix units, if the device has them and enough registers for the weights.
  static std::optional<Division> ForMatrixUnits(Device* device, const LstmDescriptor& descriptor);
  // Whether that division is faster than products of single steps.
  static bool Prefers(Device* device, const LstmDescriptor& descriptor);

  LstmSteps(Device* device, const LstmDescriptor& descriptor);
  LstmSteps(Device* device, const LstmDescriptor& descriptor, const Division& division);
  const char* library() const override { return "generated"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }
  void Forward(const LstmArguments& arguments) override;

 protected:
  void DoBackward(const LstmGradients& gradients) override;

 private:
  std::unique_ptr<Kernel> MakeKernel(const char* name);
  LaunchGroups Groups(const Kernel& kernel) const;
  // Marks `count` elements that groups exchange as not written.
  void Unwrite(DevicePtr array, int64_t count) const;
  DevicePtr turn() const { return turn_ ? turn_->get() : DevicePtr(); }
  Device* device_;
  Division division_;
  std::unique_ptr<Kernel> forward_, backward_;
  std::unique_ptr<GemmOp> weights_;  // for the gradient
  WorkspaceLayout layout_;
  int64_t carried_at_ = 0, product_at_ = 0;
  // For groups that wait for each other: all operators of a device write it, so that no two of them
  // run at the same time, each with a part of its groups.
  std::shared_ptr<DeviceArray> turn_;
};

}  // namespace caffe
