#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Bilinear resizing of each channel with aligned corners (DeepLab, PSPNet). Of I inputs and O
// outputs along an axis, output o is at position o (I - 1) / (O - 1), or 0 if O is 1, and is the
// weighted mean of the two inputs around it. The gradient distributes with the same weights.
// First, pad_beg rows and columns are cut off at the beginning and pad_end at the end (both are
// negative or 0). The number of outputs follows from the remaining I, by the first of these that is
// given:
//   shrink_factor alone: (I - 1) / shrink_factor + 1, rounded down
//   zoom_factor alone:   I + (I - 1) (zoom_factor - 1)
//   height and width:    these
//   both factors:        shrinking, then zooming
//   bottom 1:            its last two extents
// bottom 0: [N, C, H, W]; bottom 1 (optional): 4 axes, it gets no gradient; top 0: [N, C, h, w].
// interp_param: height, width, zoom_factor, shrink_factor, pad_beg (0), pad_end (0).
// Types: float kinds; quant8 and quant16 forward: the mean of codes, rounded once, half away from
// zero, in the range of the bottom.
class Interp : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  struct Axis {
    int64_t whole = 0, input = 0, output = 0;  // `input` of `whole` remain
  };
  // The extents of axis `index`: 0 is height, 1 is width.
  Axis MakeAxis(const BlobVec& bottom, int index) const;
  KernelArguments Geometry() const;

  int64_t planes_ = 0;
  Axis height_, width_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class InterpLayer final : public Layer<Dtype, MItype, MOtype, Interp> {
  using Layer<Dtype, MItype, MOtype, Interp>::Layer;
};

}  // namespace caffe
