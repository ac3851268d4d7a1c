#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Writes its bottoms to an HDF5 file, as float (double for double).
// bottom 0, bottom 1: datasets "data" and "label", with equal first extents. No top and no
// gradient.
// hdf5_output_param: file_name. The first forward writes the file; a second forward is an error,
//   because the datasets exist already.
// Types: float kinds.
class HDF5Output : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  LayerFacts Facts() const override;

 private:
  bool written_ = false;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class HDF5OutputLayer final : public Layer<Dtype, MItype, MOtype, HDF5Output> {
  using Layer<Dtype, MItype, MOtype, HDF5Output>::Layer;
};

}  // namespace caffe
