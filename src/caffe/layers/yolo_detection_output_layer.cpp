#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/yolo_output.hpp"

namespace caffe {
namespace {

// The boxes of YOLO's second version (arXiv:1612.08242) without overlapping ones: see YoloOutput
// for candidates and their order. A prediction (x, y, w, h, object, classes…) of the cell (i, j) of
// a map of H x W cells and of an anchor of a x b cells is a box with the centre ((i + s(x)) / W,
// (j + s(y)) / H) and the extents e^w a / W, e^h b / H, where s is the logistic function. Its class
// is the best one; its score is s(object) times the class's share in the softmax of all classes,
// and at least confidence_threshold.
// bottoms: one or two maps of predictions [N, num_box (5 + num_classes), H, W]; top 0:
// [1, 1, K, 7], float: (image, class + 1, score, x0, y0, x1, y1), in the order of images and
// scores; without any box one row (image, -1, -1, -1, -1, -1, -1) for each image.
// yolo_detection_output_param: num_classes (needed), num_box (5), coords (4), confidence_threshold
// (0.01), nms_threshold (0.45), biases: widths and heights of the anchors in cells. side and
// label_map_file have no effect.
// Types: float kinds. No gradient.
class YoloDetectionOutput : public YoloOutput {
 public:
  using YoloOutput::YoloOutput;

 protected:
  Setting ReadSetting(const BlobVec& bottom) const override;
};

template <class Dtype, class MItype, class MOtype>
using YoloDetectionOutputLayer = Layer<Dtype, MItype, MOtype, YoloDetectionOutput>;

YoloOutput::Setting YoloDetectionOutput::ReadSetting(const BlobVec& bottom) const {
  const YoloDetectionOutputParameter& p = layer_param().yolo_detection_output_param();
  CAFFE_CHECK(p.has_num_classes(), Where(), ": num_classes must be given");
  CAFFE_CHECK(p.coords() == 4, Where(), ": coords ", p.coords(), " must be 4");
  CAFFE_CHECK(p.num_box() > 0 && p.biases_size() == 2 * static_cast<int>(p.num_box()), Where(),
              ": num_box ", p.num_box(), " needs ", 2 * p.num_box(), " values of biases, not ",
              p.biases_size());
  Setting setting;
  setting.softmax = true;
  setting.classes = p.num_classes();
  // A score that is equal to the threshold is large enough.
  setting.threshold = std::nextafter(p.confidence_threshold(), -1.f);
  setting.overlap = p.nms_threshold();
  std::vector<Anchor> anchors;
  for (int n = 0; n < p.biases_size(); n += 2) anchors.push_back({p.biases(n), p.biases(n + 1)});
  setting.anchors.assign(bottom.size(), anchors);
  return setting;
}

}  // namespace

void RegisterYoloDetectionOutputLayer(LayerRegistry& registry) {
  LayerTraits traits = YoloOutput::Traits();
  traits.max_bottom = 2;
  traits.summary = "boxes of YOLO's second version without overlapping ones";
  registry.Add<YoloDetectionOutputLayer>("YoloDetectionOutput", traits);
}

}  // namespace caffe
