#pragma once

#include <memory>
#include <string>

#include "caffe/layer/invalid_item.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {

// The regions of interest of a detection layer: its second bottom, [R, 5], on the feature map. See
// kernels/pool/regions.h.
class Regions {
 public:
  // Creates it, or moves it to another device: called in LayerSetUp. `kernel` computes the regions:
  // roi_regions or psroi_regions.
  void Place(Device* device, const std::string& kernel, const std::string& name);
  // Throws if `rois` does not have 5 values for each region. `where` begins the message.
  void Reshape(const std::string& where, const BlobBase& rois);
  // The number of regions.
  int64_t count() const { return regions_->shape(0); }
  void Launch(int64_t images, double scale, const BlobBase& rois);
  KernelArgument Data() const { return regions_->Data(); }
  // Throws, once, if a region since the last call had an invalid image. Waits for the device.
  void Check(const std::string& where);

 private:
  std::shared_ptr<BlobBase> regions_;
  int64_t images_ = 0;  // of the last Launch
  InvalidItem invalid_;
  std::unique_ptr<Kernel> make_, check_;
};

// The common part of layers that pool regions: bottom 0 has features [N, C, H, W], bottom 1 the
// regions.
class RegionPooling : public LayerBase {
 public:
  using LayerBase::LayerBase;
  // The traits of such a layer.
  static LayerTraits Traits();
  // Reads the shapes of the bottoms.
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  // Throws if a region has an image that is not in the batch; on a device its values are NaN.
  void CheckData() override { regions_.Check(Where()); }

 protected:
  // For Forward: computes the regions.
  void Launch(double scale, const BlobVec& bottom);

  int64_t images_ = 0, channels_ = 0, height_ = 0, width_ = 0;
  Regions regions_;
  std::unique_ptr<Kernel> forward_, backward_;
};

}  // namespace caffe
