#include "caffe.pb.h"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/layer/invalid_item.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

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

template <class Dtype, class MItype, class MOtype>
using UpsampleLayer = Layer<Dtype, MItype, MOtype, Upsample>;

// Masks are float, and positions are 32-bit products of an input's and an output's extent.
constexpr int64_t kLargestImage = int64_t{1} << 24, kLargestProduct = int64_t{1} << 30;

void Upsample::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const UpsampleParameter& p = layer_param().upsample_param();
  masked_ = bottom.size() > 1;
  CAFFE_CHECK(p.has_upsample_h() == p.has_upsample_w(), Where(),
              ": give upsample_h and upsample_w together");
  CAFFE_CHECK(p.has_scale_h() == p.has_scale_w(), Where(), ": give scale_h and scale_w together");
  CAFFE_CHECK(!p.has_scale() || !p.has_scale_h(), Where(),
              ": give either scale, or scale_h and scale_w");
  height_ = width_ = Axis();
  if (p.has_upsample_h()) {
    height_.fixed = p.upsample_h();
    width_.fixed = p.upsample_w();
    CAFFE_CHECK(height_.fixed > 0 && width_.fixed > 0, Where(), ": upsample_h ", height_.fixed,
                " and upsample_w ", width_.fixed, " must be positive");
  } else {
    height_.scale = p.has_scale_h() ? p.scale_h() : p.scale();
    width_.scale = p.has_scale_h() ? p.scale_w() : p.scale();
    height_.cut = p.pad_out_h();
    width_.cut = p.pad_out_w();
    CAFFE_CHECK(height_.scale > 0 && width_.scale > 0, Where(), ": the scale of ", height_.scale,
                "x", width_.scale, " must be positive");
    CAFFE_CHECK(masked_ || (!p.pad_out_h() && !p.pad_out_w()), Where(),
                ": pad_out_h and pad_out_w need a second bottom, the mask of a pooling");
    CAFFE_CHECK((!p.pad_out_h() || height_.scale == 2) && (!p.pad_out_w() || width_.scale == 2),
                Where(), ": pad_out_h and pad_out_w need a scale of 2, not ", height_.scale, "x",
                width_.scale, "; give upsample_h and upsample_w instead");
  }
  if (!masked_) {
    forward_ = MakeKernel("resize/nearest", "nearest_forward");
    if (types().compute.is_float()) backward_ = MakeKernel("resize/nearest", "nearest_backward");
    return;
  }
  CAFFE_CHECK(types().compute.is_float(), Where(), ": a mask is not supported in ", types().name(),
              "; give the layer a float type");
  PlaceBlob(&row_reach_, kFloat, device(), {0}, name() + " reach of rows");  // holds i32 bits
  PlaceBlob(&reach_, kFloat, device(), {0}, name() + " reach");              // holds i32 bits
  invalid_.Place(device(), name());
  const auto reach = ProgramBuilder(device(), "reach").Body("resize/reach").Build();
  measure_rows_ = reach->CreateKernel("reach_of_rows");
  measure_planes_ = reach->CreateKernel("reach_of_planes");
  check_ = reach->CreateKernel("reach_check");
  forward_ = MakeKernel("resize/unpool", "unpool_forward");
  backward_ = MakeKernel("resize/unpool", "unpool_backward");
}

void Upsample::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() == 4, Where(), ": needs a bottom of 4 axes, not of shape ",
              bottom[0]->shape_string());
  height_.Resize(bottom[0]->shape(2));
  width_.Resize(bottom[0]->shape(3));
  CAFFE_CHECK(height_.input > 0 && width_.input > 0, Where(), ": the image of shape ",
              bottom[0]->shape_string(), " is empty");
  for (const Axis* axis : {&height_, &width_}) {
    CAFFE_CHECK(axis->output <= kLargestProduct / axis->input, Where(), ": ", axis->input,
                " inputs and ", axis->output, " outputs of one axis are too many; their product ",
                "must not be larger than 2^30");
  }
  planes_ = bottom[0]->count(0, 2);
  top[0]->Reshape({bottom[0]->shape(0), bottom[0]->shape(1), height_.output, width_.output});
  if (!masked_) return;
  CAFFE_CHECK(bottom[1]->shape() == bottom[0]->shape(), Where(), ": values of shape ",
              bottom[0]->shape_string(), " need a mask of the same shape, not ",
              bottom[1]->shape_string());
  CAFFE_CHECK(height_.output * width_.output <= kLargestImage, Where(), ": images of more than ",
              "2^24 elements are not supported; this one would have shape ",
              top[0]->shape_string());
  row_reach_->Reshape({planes_ * height_.input});
  reach_->Reshape({planes_});
}

KernelArguments Upsample::Geometry() const {
  return {planes_, height_.input, width_.input, height_.output, width_.output};
}

void Upsample::MeasureReach(const BlobBase& mask) {
  const int64_t rows = planes_ * height_.input;
  measure_rows_->Launch(LaunchRange::WithCost(rows, width_.input),
                        {rows, height_.input, width_.input, height_.output, width_.output,
                         mask.Data(), row_reach_->MutableData()});
  measure_planes_->Launch(planes_,
                          {planes_, height_.input, row_reach_->Data(), reach_->MutableData()});
  check_->Launch(1, {1, planes_, height_.input * width_.input, height_.output * width_.output,
                     reach_->Data(), mask.Data(), invalid_.MutableData()});
  if (device()->host_accessible()) CheckData();
}

void Upsample::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (planes_ == 0) return;
  KernelArguments arguments = Geometry();
  arguments.push_back(In(bottom, 0));
  if (masked_) {
    MeasureReach(*bottom[1]);
    arguments.push_back(bottom[1]->Data());
    arguments.push_back(reach_->Data());
  }
  arguments.push_back(Out(top, 0));
  forward_->Launch({planes_ * height_.output, width_.output}, arguments);
}

void Upsample::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                        const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  KernelArguments arguments = Geometry();
  arguments.push_back(top[0]->Diff());
  if (masked_) {
    arguments.push_back(bottom[1]->Data());
    arguments.push_back(reach_->Data());
  }
  arguments.push_back(bottom[0]->MutableDiff());
  backward_->Launch({planes_ * height_.input, width_.input}, arguments);
}

void Upsample::CheckData() {
  if (!masked_) return;
  const auto item = invalid_.Take();
  if (!item) return;
  CAFFE_THROW(Where(), ": the mask of channel ", item->index, " of the batch has the value ",
              item->value, ", which is outside the image of ", height_.output, "x", width_.output,
              "; give upsample_h and upsample_w, the size of the pooling's bottom");
}

LayerFacts Upsample::Facts() const {
  LayerFacts facts;
  // A forward also records invalid data, which the host reads in CheckData.
  facts.replayable = phase() == TRAIN;
  if (!masked_) facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterUpsampleLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.quantizes = [](const LayerParameter& layer) { return layer.bottom_size() == 1; };
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{1}, {}});
  traits.cast_side = [](const LayerParameter& layer) {
    return layer.bottom_size() == 1 ? CastSide::kBefore : CastSide::kNone;
  };
  traits.per_item = Always(true);
  traits.summary = "larger images: nearest neighbours, or the inverse of a MAX pooling";
  registry.Add<UpsampleLayer>("Upsample", traits);
}

}  // namespace caffe
