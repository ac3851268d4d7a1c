#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/box_lists.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {

// The common part of layers that make boxes of YOLO's predictions. Of each class, candidates are
// the priors with scores above the threshold; of each image they are taken in the order of their
// scores, of equal scores the lower class and then the earlier prior first. A candidate is kept if
// its overlap with every kept one, of whatever class, is smaller than the threshold of overlaps.
class YoloOutput : public LayerBase {
 public:
  using LayerBase::LayerBase;
  static LayerTraits Traits();
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;

 protected:
  struct Anchor {
    double width = 0, height = 0;
  };
  struct Setting {
    int64_t classes = 0;
    float threshold = 0;  // scores must be greater
    double overlap = 0;
    // Scores of classes are shares, of which only the best counts.
    bool softmax = false;
    // The anchors of each bottom, in units of cells.
    std::vector<std::vector<Anchor>> anchors;
  };
  // Reads and checks the parameters.
  virtual Setting ReadSetting(const BlobVec& bottom) const = 0;

 private:
  Setting setting_;
  int64_t images_ = 0, priors_ = 0;
  std::vector<std::shared_ptr<BlobBase>> sizes_;  // of the anchors of each bottom
  std::shared_ptr<BlobBase> boxes_, scores_;
  BoxLists candidates_;
  BoxSuppression suppression_;
  std::unique_ptr<Kernel> predict_, find_;
};

}  // namespace caffe
