#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Joins the bottoms along an axis. Their gradients are the parts of the top's. With a single bottom
// the top shares its data and diff; nothing is copied. In phase TEST, steps of a net may write their
// tops into this one's.
// bottom 0…: equal extents except along the axis; top 0: the sum of the extents there.
// concat_param: axis (1, from the end if negative), or its older form concat_dim (1).
// Types: float kinds; quant8 and quant16 forward, where y has a range of its own: codes are copied
// where a bottom's range equals it, else rescaled.
class ConcatBottoms : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

 private:
  class ChannelsLastWork;
  static bool IsPart(const BlobBase& bottom, const BlobBase& top, int64_t offset);

  int axis_ = 0;
  std::vector<int64_t> extents_;  // of the bottoms along the axis
  bool channels_ = false;         // the axis is that of the channels of images
  int64_t outer_ = 0;
  int64_t row_ = 0;            // elements of the top for one index of the outer axes
  std::vector<int64_t> rows_;  // the same of each bottom
  std::unique_ptr<Kernel> copy_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ConcatLayer final : public Layer<Dtype, MItype, MOtype, ConcatBottoms> {
  using Layer<Dtype, MItype, MOtype, ConcatBottoms>::Layer;
};

}  // namespace caffe
