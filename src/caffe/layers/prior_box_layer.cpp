#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// The priors of a feature map (SSD, arXiv:1512.02325, section 2.2): boxes around the centre of each
// cell, ((column + offset) step_w, (row + offset) step_h) in pixels, in shares of the image.
// PriorBox: for each min_size s, and the max_size S of the same index, a square of s, a square of
// sqrt(s S), and for each aspect ratio r other than 1 a box of s sqrt(r) x s / sqrt(r).
// PriorBoxClustered (Intel): boxes of width[i] x height[i].
// bottom 0: the feature map, bottom 1: the image; of both only the last two of four axes matter.
// top 0: [1, 2, H W K 4], float: the boxes (x0, y0, x1, y1), then the variances of their codes.
// prior_box_param: min_size, max_size (as many, or none), aspect_ratio, flip (true: 1 / r, too); or
// width and height; clip (false): to [0, 1]; variance (0.1; one or four); img_size, or img_h and
// img_w: the image's; step, or step_h and step_w: the image's extents divided by the map's;
// offset (0.5).
// Types: all; no data is read. No gradient.
class PriorBox : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;

 protected:
  const PriorBoxParameter& parameter() const { return layer_param().prior_box_param(); }
  void AddBox(double width, double height) {
    widths_.push_back(width);
    heights_.push_back(height);
  }

 private:
  // Adds the boxes of a cell.
  virtual void AddBoxes();
  // Sets a value of two axes, given for both or for each.
  template <class T>
  void SetAxes(bool has_both, T both, bool has_h, T h, bool has_w, T w, const char* field,
               double* height, double* width) const;

  std::vector<double> widths_, heights_;                        // of the boxes of a cell
  double image_h_ = 0, image_w_ = 0, step_h_ = 0, step_w_ = 0;  // 0: from the bottoms
  int64_t rows_ = 0, columns_ = 0, bottom_h_ = 0, bottom_w_ = 0;
  std::shared_ptr<BlobBase> sizes_, variances_;
  std::unique_ptr<Kernel> forward_;
};

class PriorBoxClustered : public PriorBox {
 public:
  using PriorBox::PriorBox;

 private:
  void AddBoxes() override;
};

template <class Dtype, class MItype, class MOtype>
using PriorBoxLayer = Layer<Dtype, MItype, MOtype, PriorBox>;
template <class Dtype, class MItype, class MOtype>
using PriorBoxClusteredLayer = Layer<Dtype, MItype, MOtype, PriorBoxClustered>;

void PriorBox::AddBoxes() {
  const PriorBoxParameter& p = parameter();
  CAFFE_CHECK(p.min_size_size() > 0, Where(), ": min_size must be given");
  CAFFE_CHECK(p.width_size() == 0 && p.height_size() == 0, Where(),
              ": width and height belong to PriorBoxClustered");
  CAFFE_CHECK(p.max_size_size() == 0 || p.max_size_size() == p.min_size_size(), Where(), ": ",
              p.min_size_size(), " values of min_size need as many of max_size, or none, not ",
              p.max_size_size());
  std::vector<float> ratios{1};
  const auto add_ratio = [&ratios](float ratio) {
    const bool known = std::any_of(ratios.begin(), ratios.end(), [ratio](float other) {
      return std::abs(ratio - other) < 1e-6f;
    });
    if (!known) ratios.push_back(ratio);
    return !known;
  };
  for (const float ratio : p.aspect_ratio()) {
    CAFFE_CHECK(ratio > 0, Where(), ": aspect_ratio ", ratio, " must be positive");
    // Only a new ratio is flipped, even if its inverse is known already: files count on it.
    if (add_ratio(ratio) && p.flip()) ratios.push_back(1 / ratio);
  }
  for (int i = 0; i < p.min_size_size(); ++i) {
    const float size = p.min_size(i);
    CAFFE_CHECK(size > 0, Where(), ": min_size ", size, " must be positive");
    AddBox(size, size);
    if (p.max_size_size() > 0) {
      CAFFE_CHECK(p.max_size(i) > size, Where(), ": max_size ", p.max_size(i),
                  " must be greater than min_size ", size);
      const double both = std::sqrt(static_cast<double>(size) * p.max_size(i));
      AddBox(both, both);
    }
    for (size_t r = 1; r < ratios.size(); ++r) {
      const double root = std::sqrt(static_cast<double>(ratios[r]));
      AddBox(size * root, size / root);
    }
  }
}

void PriorBoxClustered::AddBoxes() {
  const PriorBoxParameter& p = parameter();
  CAFFE_CHECK(p.width_size() > 0 && p.width_size() == p.height_size(), Where(), ": needs as many ",
              "values of width as of height; there are ", p.width_size(), " and ", p.height_size());
  CAFFE_CHECK(p.min_size_size() == 0 && p.max_size_size() == 0 && p.aspect_ratio_size() == 0,
              Where(), ": min_size, max_size and aspect_ratio belong to PriorBox");
  for (int i = 0; i < p.width_size(); ++i) {
    CAFFE_CHECK(p.width(i) > 0 && p.height(i) > 0, Where(), ": width ", p.width(i), " and height ",
                p.height(i), " must be positive");
    AddBox(p.width(i), p.height(i));
  }
}

template <class T>
void PriorBox::SetAxes(bool has_both, T both, bool has_h, T h, bool has_w, T w, const char* field,
                       double* height, double* width) const {
  CAFFE_CHECK(!has_both || (!has_h && !has_w), Where(), ": give either one ", field,
              ", or one for each axis");
  CAFFE_CHECK(has_h == has_w, Where(), ": give the ", field, " of both axes");
  CAFFE_CHECK((!has_both || both > 0) && (!has_h || (h > 0 && w > 0)), Where(), ": ", field,
              " must be positive");
  *height = has_both ? both : has_h ? h : 0;
  *width = has_both ? both : has_w ? w : 0;
}

void PriorBox::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const PriorBoxParameter& p = parameter();
  widths_.clear();
  heights_.clear();
  AddBoxes();
  SetAxes(p.has_img_size(), p.img_size(), p.has_img_h(), p.img_h(), p.has_img_w(), p.img_w(),
          "image size", &image_h_, &image_w_);
  SetAxes(p.has_step(), p.step(), p.has_step_h(), p.step_h(), p.has_step_w(), p.step_w(), "step",
          &step_h_, &step_w_);
  std::vector<double> variances(p.variance().begin(), p.variance().end());
  if (variances.empty()) variances = {0.1f};
  CAFFE_CHECK(variances.size() == 1 || variances.size() == 4, Where(),
              ": give one variance or four, not ", variances.size());
  for (const double variance : variances) {
    CAFFE_CHECK(variance > 0, Where(), ": variance ", variance, " must be positive");
  }
  variances.resize(4, variances[0]);
  std::vector<double> sizes = widths_;
  sizes.insert(sizes.end(), heights_.begin(), heights_.end());
  PlaceBlob(&sizes_, kFloat, device(), {static_cast<int64_t>(sizes.size())}, name() + " sizes");
  PlaceBlob(&variances_, kFloat, device(), {4}, name() + " variances");
  sizes_->SetData(sizes);
  variances_->SetData(variances);
  forward_ =
      ProgramBuilder(device(), "prior_box").Body("box/prior").Build()->CreateKernel("prior_boxes");
}

void PriorBox::Reshape(const BlobVec& bottom, const BlobVec& top) {
  for (const BlobBase* blob : {bottom[0], bottom[1]}) {
    CAFFE_CHECK(blob->num_axes() == 4, Where(),
                ": needs a feature map and an image of 4 axes, not ", "of shape ",
                blob->shape_string());
  }
  rows_ = bottom[0]->shape(2);
  columns_ = bottom[0]->shape(3);
  bottom_h_ = bottom[1]->shape(2);
  bottom_w_ = bottom[1]->shape(3);
  top[0]->Reshape({1, 2, rows_ * columns_ * static_cast<int64_t>(widths_.size()) * 4});
}

void PriorBox::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t per_cell = static_cast<int64_t>(widths_.size()), count = top[0]->count() / 8;
  if (count == 0) return;
  const double image_h = image_h_ > 0 ? image_h_ : static_cast<double>(bottom_h_);
  const double image_w = image_w_ > 0 ? image_w_ : static_cast<double>(bottom_w_);
  const double step_h = step_h_ > 0 ? step_h_ : image_h / static_cast<double>(rows_);
  const double step_w = step_w_ > 0 ? step_w_ : image_w / static_cast<double>(columns_);
  forward_->Launch(count, {count, per_cell, columns_, static_cast<double>(parameter().offset()),
                           step_w, step_h, image_w, image_h, parameter().clip(), sizes_->Data(),
                           variances_->Data(), top[0]->MutableData()});
}

LayerFacts PriorBox::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterPriorBoxLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.float_tops = {0};
  traits.no_gradient_bottoms = {0, 1};
  traits.backward = false;
  traits.summary = "boxes of several sizes around each cell of a feature map (SSD)";
  registry.Add<PriorBoxLayer>("PriorBox", traits);
  traits.summary = "boxes of given sizes around each cell of a feature map";
  registry.Add<PriorBoxClusteredLayer>("PriorBoxClustered", traits);
}

}  // namespace caffe
