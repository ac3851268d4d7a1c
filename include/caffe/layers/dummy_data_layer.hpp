#pragma once

#include "caffe/layer/class_labels.hpp"
#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Blobs filled by fillers. Values of a constant filler are written once, and the caller may
// overwrite them; other fillers write new values in every forward, which depend on the layer's seed
// and on the number of forwards.
// top 0…: dummy_data_param.shape, one for all tops or one per top; or the older num, channels,
//   height, width, each once or once per top.
// dummy_data_param: data_filler, none (constant 0), one for all or one per top. Tops that layers read
//   as labels of classes, and as nothing else, are truncated to integers, with one warning.
// Types: float kinds.
class DummyData : public LayerBase, public HasRecords, public ClassSource {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  std::vector<uint64_t> RunState() const override { return {forwards_}; }
  LayerFacts Facts() const override;
  int64_t records() const override { return kEndless; }
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;
  void SetClassTops(const std::vector<int>& tops, const BlobVec& top) override;

 private:
  Shape TopShape(int top, int tops) const;
  // Fills the tops whose filler is constant, or the others.
  void FillTops(const BlobVec& top, bool constant);
  void Truncate(BlobBase* top);

  bool set_up_ = false, warned_ = false;
  std::vector<int> class_tops_;
  uint64_t forwards_ = 0;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DummyDataLayer final : public Layer<Dtype, MItype, MOtype, DummyData> {
  using Layer<Dtype, MItype, MOtype, DummyData>::Layer;
};

}  // namespace caffe
