#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// One of the layers that compute a MOE layer, see MOERoute: the rows that the experts compute.
//   y[r] = x[rows[r] / K], and 0 where rows[r] is -1;  dE/dx[n] = sum over k of dE/dy[slots[n, k]]
// bottom 0: x [N, …]; bottom 1: rows; bottom 2: slots [N, K], both always float.
// top 0: [rows, …]. Not in place.
// Types: float kinds; quant8 and quant16 forward, where the top has the bottom's range.
class MOEGather : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // Copies vectors of bytes, if rows consist of these.
  bool CopyVectors(const BlobVec& bottom, const BlobVec& top);

  int64_t items_ = 0, columns_ = 0, rows_ = 0, select_ = 0;
  std::unique_ptr<Kernel> forward_, backward_;
  std::unique_ptr<Kernel> vectors_;  // null on the CPU, and if the types differ
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MOEGatherLayer final : public Layer<Dtype, MItype, MOtype, MOEGather> {
  using Layer<Dtype, MItype, MOtype, MOEGather>::Layer;
};

}  // namespace caffe
