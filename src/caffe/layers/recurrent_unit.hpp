#pragma once

#include <memory>
#include <string>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

// The common part of GRUUnit and LSTMUnit: bottom 0 is the state [1, N, H], bottom 1 and bottom 3
// have the gates, bottom 2 is cont [1, N]; tops have the shape of the state.
class RecurrentUnit : public LayerBase {
 public:
  using LayerBase::LayerBase;
  // The traits of such a layer, with all bottoms.
  static LayerTraits Traits();
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  // The last top is the output, which lies between -1 and 1 if the first state does.
  LayerFacts Facts() const override {
    LayerFacts facts;
    facts.replayable = true;
    facts.bounds = LayerFacts::Bounds{.top = gates_ == 4 ? 1 : 0};
    return facts;
  }

 protected:
  // For LayerSetUp: the kernels <name>_forward and <name>_backward of neuron/<name>, and the gates
  // of each element of the state.
  void SetUp(const BlobVec& bottom, const BlobVec& top, const std::string& name, int gates);

  int64_t rows_ = 0, columns_ = 0;  // N, H
  std::unique_ptr<Kernel> forward_, backward_;

 private:
  int gates_ = 0;
};

}  // namespace caffe
