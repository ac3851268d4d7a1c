#include "caffe/layer/sub_net.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

SubNet::SubNet() : net(std::make_unique<NetParameter>()) {}
SubNet::~SubNet() = default;
SubNet::SubNet(SubNet&&) noexcept = default;
SubNet& SubNet::operator=(SubNet&&) noexcept = default;

void CompositeLayer::CheckInNet() const {
  CAFFE_CHECK(outputs_ >= 0, Where(), ": other layers compute this one, which only a net makes; ",
              "create a Net that contains it");
}

void CompositeLayer::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CheckInNet();
  for (size_t t = 0; t < top.size(); ++t) {
    top[t]->ReshapeLike(*bottom[t]);
    top[t]->ShareData(*bottom[t]);
  }
}

void CompositeLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  CheckInNet();
  // Repeated in each forward, since the memory of a bottom may have changed.
  for (size_t t = 0; t < top.size(); ++t) top[t]->ShareData(*bottom[t]);
}

void CompositeLayer::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                              const BlobVec& bottom) {
  CheckInNet();
  for (size_t t = 0; t < top.size(); ++t) {
    if (propagate_down[t]) bottom[t]->ShareDiff(*top[t]);
  }
}

LayerFacts CompositeLayer::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  facts.layouts.any = phase() == TEST;
  for (int t = 0; t < outputs_; ++t) facts.aliases.push_back({t, t});
  return facts;
}

}  // namespace caffe
