#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/yolo_output.hpp"

namespace caffe {
namespace {

// The boxes of YOLO's third version (arXiv:1804.02767) without overlapping ones: see YoloOutput for
// candidates and their order. A prediction (x, y, w, h, object, classes…) of the cell (i, j) of a
// map of H x W cells and of an anchor of a x b pixels is a box with the centre ((i + s(x)) / W,
// (j + s(y)) / H) and the extents e^w a / (W scale), e^h b / (H scale); the score of a class c is
// s(object) s(c), where s is the logistic function.
// bottoms: predictions [N, num_box (5 + num_classes), H, W], one for each map; top 0: [1, 1, K, 7],
// float: (image, class + 1, score, x0, y0, x1, y1), in the order of images and scores; without any
// box one row (image, -1, -1, -1, -1, -1, -1) for each image.
// yolov3_detection_output_param: num_classes; num_box (3), confidence_threshold (0.01),
// nms_threshold (0.45), biases: widths and heights of all anchors in pixels; mask_group_num (2):
// the number of bottoms; mask: the indices of the anchors, num_box for each bottom;
// anchors_scale: the pixels of a cell of each bottom.
// Types: float kinds. No gradient.
class Yolov3DetectionOutput : public YoloOutput {
 public:
  using YoloOutput::YoloOutput;

 protected:
  Setting ReadSetting(const BlobVec& bottom) const override;
};

template <class Dtype, class MItype, class MOtype>
using Yolov3DetectionOutputLayer = Layer<Dtype, MItype, MOtype, Yolov3DetectionOutput>;

YoloOutput::Setting Yolov3DetectionOutput::ReadSetting(const BlobVec& bottom) const {
  const Yolov3DetectionOutputParameter& p = layer_param().yolov3_detection_output_param();
  const int maps = static_cast<int>(bottom.size()), boxes = static_cast<int>(p.num_box());
  CAFFE_CHECK(p.mask_group_num() == bottom.size(), Where(), ": mask_group_num ", p.mask_group_num(),
              " must be the number of bottoms, ", maps);
  CAFFE_CHECK(p.anchors_scale_size() == maps, Where(), ": ", maps, " bottoms need as many values ",
              "of anchors_scale, not ", p.anchors_scale_size());
  CAFFE_CHECK(boxes > 0 && p.mask_size() == maps * boxes, Where(), ": ", maps,
              " bottoms and num_box ", boxes, " need ", maps * boxes, " values of mask, not ",
              p.mask_size());
  CAFFE_CHECK(p.biases_size() % 2 == 0, Where(), ": biases are pairs of a width and a height; ",
              "there are ", p.biases_size());
  Setting setting;
  setting.classes = p.num_classes();
  setting.threshold = p.confidence_threshold();
  setting.overlap = p.nms_threshold();
  for (int m = 0; m < maps; ++m) {
    CAFFE_CHECK(p.anchors_scale(m) > 0, Where(), ": anchors_scale must be positive");
    std::vector<Anchor>& anchors = setting.anchors.emplace_back();
    for (int n = 0; n < boxes; ++n) {
      const int64_t mask = p.mask(m * boxes + n);
      CAFFE_CHECK(2 * mask < p.biases_size(), Where(), ": mask ", mask, " is not one of the ",
                  p.biases_size() / 2, " anchors of biases");
      const double scale = p.anchors_scale(m);
      anchors.push_back({p.biases(static_cast<int>(2 * mask)) / scale,
                         p.biases(static_cast<int>(2 * mask) + 1) / scale});
    }
  }
  return setting;
}

}  // namespace

void RegisterYolov3DetectionOutputLayer(LayerRegistry& registry) {
  LayerTraits traits = YoloOutput::Traits();
  traits.summary = "boxes of YOLO's third version without overlapping ones";
  registry.Add<Yolov3DetectionOutputLayer>("Yolov3DetectionOutput", traits);
}

}  // namespace caffe
