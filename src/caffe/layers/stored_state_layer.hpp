#pragma once

#include "carried_state_layer.hpp"

namespace caffe {

// Stores the last state of a recurrent layer (Recurrent) in a CarriedState layer of its net.
// bottom 0: [1, N, num_output]; no tops. No gradient.
// Types: float kinds.
class StoredState : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void set_state(std::shared_ptr<CarriedState> state) { state_ = std::move(state); }
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  // The state is stored already.
  void RepeatForward(const BlobVec&, const BlobVec&) override {}
  LayerFacts Facts() const override;

 private:
  std::shared_ptr<CarriedState> state_;
};

}  // namespace caffe
