#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

// The last state of the forward before, in the net of a recurrent layer (Recurrent), which stores
// it by a StoredState layer. 0 in the first forward and after a change of N.
// bottom 0: cont [T, N], of which only N is used; top 0: [1, N, num_output]. No gradient.
// recurrent_param: num_output.
// Types: float kinds. The state stays on the device; solverstates contain it.
class CarriedState : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  // The state of the last Forward again.
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  void MoveToDevice(Device* device, const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  // N, and the bits of the elements as double.
  std::vector<uint64_t> RunState() const override;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

  // All elements lie between -1 and 1.
  void set_bounded() { bounded_ = true; }
  // Enqueues that `state` is what the next forward begins with.
  void Store(const BlobBase& state);

 private:
  void Write(const std::vector<uint64_t>& values);

  // The host never reads or writes these blobs, so that a replayed graph may change them.
  std::shared_ptr<BlobBase> next_, used_;
  bool bounded_ = false;
  std::vector<uint64_t> restored_;  // a state of SetRunState for another N
};

}  // namespace caffe
