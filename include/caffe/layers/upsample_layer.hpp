#pragma once

#include "caffe/layer/invalid_item.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Enlarges images.
//   One bottom (YOLO): nearest neighbours, y[h, w] = x[h / scale, w / scale], rounded down.
//     dE/dx = the sum of dE/dy over the elements that copy x
//   With a mask (SegNet): the inverse of a MAX pooling. Each value is written to the element
//     h w' + w that the mask names, the others are 0; a value whose mask is negative is dropped.
//     If several values have the same target, as with overlapping windows, the last one wins.
//     dE/dx = dE/dy of that element; 0 for values that were dropped or replaced
// bottom 0: [N, C, H, W]; bottom 1 (optional): the second top of a Pooling, of the same shape,
// which has no gradient; top 0: [N, C, h, w].
// upsample_param: upsample_h and upsample_w, or scale (2), or scale_h and scale_w; pad_out_h and
//   pad_out_w (false), with a mask and a scale of 2: one row or column less, for odd images.
// Types: float kinds; without a mask, quant8 and quant16 forward, which copy codes. The mask is
// float.
class Upsample : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  // Throws if a mask points outside the image; on a device such a channel is NaN.
  void CheckData() override;

 private:
  struct Axis {
    int64_t fixed = 0, scale = 0, cut = 0;  // output = fixed, or input scale - cut
    int64_t input = 0, output = 0;
    void Resize(int64_t extent) {
      input = extent;
      output = fixed > 0 ? fixed : extent * scale - cut;
    }
  };
  KernelArguments Geometry() const;
  // Measures the reach of a forward's mask.
  void MeasureReach(const BlobBase& mask);

  bool masked_ = false;
  int64_t planes_ = 0;
  Axis height_, width_;
  // The reach of the mask, of each row and of each plane (integers): see kernels/resize/reach.h.
  std::shared_ptr<BlobBase> row_reach_, reach_;
  InvalidItem invalid_;
  std::unique_ptr<Kernel> measure_rows_, measure_planes_, check_, forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class UpsampleLayer final : public Layer<Dtype, MItype, MOtype, Upsample> {
  using Layer<Dtype, MItype, MOtype, Upsample>::Layer;
};

}  // namespace caffe
