// The pass strides: a blob that only layers with a kernel of 1x1 and a stride read is computed with
// that stride (Intel, "Lower Numerical Precision Deep Learning Inference and Training", figure 8).
#include <algorithm>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

struct Stride {
  int64_t h = 1, w = 1;
  bool operator==(const Stride&) const = default;
};

// How a blob becomes one with a stride: these layers compute with the stride, and these bottoms
// read every n-th row and column of what they read now.
struct Change {
  std::vector<int> layers;
  std::vector<BlobUse> picks;
};

// One of several values for all axes, or the value of one axis.
template <class Repeated>
int64_t Along(const Repeated& all, int axis, bool has_own, int64_t own, int64_t preset) {
  if (has_own) return own;
  if (all.empty()) return preset;
  return all.Get(std::min<int>(axis, all.size() - 1));
}

Stride StrideOf(const ConvolutionParameter& p) {
  return {Along(p.stride(), 0, p.has_stride_h(), p.stride_h(), 1),
          Along(p.stride(), 1, p.has_stride_w(), p.stride_w(), 1)};
}

void SetStride(const Stride& stride, ConvolutionParameter* p) {
  p->clear_stride();
  p->clear_stride_h();
  p->clear_stride_w();
  p->add_stride(static_cast<uint32_t>(stride.h));
  if (stride.w != stride.h) p->add_stride(static_cast<uint32_t>(stride.w));
}

void SetStride(const Stride& stride, PoolingParameter* p) {
  if (stride.h == stride.w) return p->set_stride(static_cast<uint32_t>(stride.h));
  p->set_stride_h(static_cast<uint32_t>(stride.h));
  p->set_stride_w(static_cast<uint32_t>(stride.w));
}

bool IsPoint(const ConvolutionParameter& p) {
  const auto zero = [](int64_t pad) { return pad == 0; };
  const bool one = Along(p.kernel_size(), 0, p.has_kernel_h(), p.kernel_h(), 0) == 1 &&
                   Along(p.kernel_size(), 1, p.has_kernel_w(), p.kernel_w(), 0) == 1;
  return one && p.axis() == 1 && zero(Along(p.pad(), 0, p.has_pad_h(), p.pad_h(), 0)) &&
         zero(Along(p.pad(), 1, p.has_pad_w(), p.pad_w(), 0));
}

int64_t Picked(int64_t extent, int64_t stride) { return (extent - 1) / stride + 1; }

class Strides {
 public:
  explicit Strides(NetParameter* model) : model_(*model), flow_(*model), net_(MakeNet(*model)) {
    for (const auto& layer : net_->layers()) facts_.push_back(layer->Facts());
  }

  // Changes the first blob that can be computed with a stride. Returns false if there is none.
  bool MoveOne(TransformNotes* notes) {
    for (int i = 0; i < model_.layer_size(); ++i) {
      for (int t = 0; t < model_.layer(i).top_size(); ++t) {
        const std::optional<Stride> stride = StrideOfReaders({i, t});
        if (!stride) continue;
        const std::optional<Change> change = ChangeOf({i, t}, *stride);
        if (!change) continue;
        Apply({i, t}, *stride, *change, notes);
        return true;
      }
    }
    return false;
  }

 private:
  const Shape& ShapeOf(const BlobUse& top) const {
    return net_->blobs()[net_->top_ids(top.layer)[top.index]]->shape();
  }

  // The stride with which a layer picks rows and columns of its bottom, if that is all that it does
  // along these axes.
  std::optional<Stride> PickStride(int i) const {
    const LayerParameter& layer = model_.layer(i);
    if (layer.bottom_size() != 1 || layer.top_size() != 1) return std::nullopt;
    Stride stride;
    if (layer.has_convolution_param() && facts_[i].weighted) {
      const ConvolutionParameter& p = layer.convolution_param();
      if (!IsPoint(p)) return std::nullopt;
      stride = StrideOf(p);
    } else if (IsPick(layer)) {
      stride = {layer.pooling_param().stride(), layer.pooling_param().stride()};
    } else {
      return std::nullopt;
    }
    const BlobUse source = flow_.Source(i, 0);
    if (source.layer < 0 || stride == Stride{}) return std::nullopt;
    const Shape &bottom = ShapeOf(source), &top = ShapeOf({i, 0});
    // Other layers with weights make larger blobs.
    const bool picks = bottom.size() == 4 && top.size() == 4 && bottom[2] > 1 && bottom[3] > 1 &&
                       top[2] == Picked(bottom[2], stride.h) &&
                       top[3] == Picked(bottom[3], stride.w);
    return picks ? std::optional(stride) : std::nullopt;
  }

  // A pooling layer whose windows are single elements.
  static bool IsPick(const LayerParameter& layer) {
    if (!layer.has_pooling_param()) return false;
    const PoolingParameter& p = layer.pooling_param();
    const bool plain = !p.has_pad_h() && !p.has_pad_w() && !p.has_kernel_h() && !p.has_kernel_w() &&
                       !p.has_stride_h() && !p.has_stride_w() && p.kernel_size_nd_size() == 0 &&
                       p.stride_nd_size() == 0 && !p.global_pooling();
    return plain && p.kernel_size() == 1 && p.pad() == 0 &&
           p.pool() != PoolingParameter::STOCHASTIC;
  }

  std::optional<Stride> StrideOfReaders(const BlobUse& top) const {
    std::optional<Stride> stride;
    for (const BlobUse& reader : flow_.Readers(top.layer, top.index)) {
      const std::optional<Stride> one = PickStride(reader.layer);
      if (!one || (stride && !(*one == *stride))) return std::nullopt;
      stride = one;
    }
    return stride;
  }

  // Whether a layer with weights computes every n-th row and column of its top if it has the
  // stride.
  bool Computes(int i, const Stride& stride) const {
    const Shape &top = ShapeOf({i, 0}), &bottom = ShapeOf(flow_.Source(i, 0));
    if (top.size() != 4 || bottom.size() != 4 || top[2] < 2 || top[3] < 2) return false;
    NetParameter alone;
    LayerParameter* input = alone.add_layer();
    input->set_name("input");
    input->set_type("Input");
    input->add_top("input");
    BlobShape* shape = input->mutable_input_param()->add_shape();
    for (const int64_t extent : bottom) shape->add_dim(extent);
    LayerParameter* layer = alone.add_layer();
    *layer = model_.layer(i);
    layer->clear_blobs();
    ClearFillers(layer);
    layer->set_bottom(0, "input");
    layer->set_top(0, "top");
    ConvolutionParameter* p = layer->mutable_convolution_param();
    const Stride own = StrideOf(*p);
    SetStride({own.h * stride.h, own.w * stride.w}, p);
    NetOptions options;
    options.device = net_->device();
    options.phase = TEST;
    const Net made(alone, options);
    const Shape& changed = made.BlobByName("top")->shape();
    return changed == Shape{top[0], top[1], Picked(top[2], stride.h), Picked(top[3], stride.w)};
  }

  // Whether each element of the top depends on the elements of the bottoms at its place alone.
  bool IsPointwise(int i) const {
    const LayerFacts& facts = facts_[i];
    const Shape& top = ShapeOf({i, 0});
    for (int b = 0; b < model_.layer(i).bottom_size(); ++b) {
      const BlobUse source = flow_.Source(i, b);
      if (source.layer < 0 || ShapeOf(source) != top) return false;
    }
    if (facts.affine) return facts.affine->channels == 1 || facts.affine->axis == 1;
    return facts.function || facts.sum || facts.layouts.any;
  }

  // Whether the bottoms are parts of the channels of the top.
  bool JoinsChannels(int i) const { return facts_[i].join && facts_[i].join->axis == 1; }

  std::optional<Change> ChangeOf(const BlobUse& top, const Stride& stride) const {
    const int i = top.layer;
    const LayerParameter& layer = model_.layer(i);
    if (layer.top_size() != 1 || layer.bottom_size() == 0 || layer.loss_weight_size() > 0 ||
        ShapeOf(top).size() != 4) {
      return std::nullopt;
    }
    Change change;
    if (layer.has_convolution_param() && facts_[i].weighted && layer.bottom_size() == 1) {
      if (layer.convolution_param().axis() != 1) return std::nullopt;
      if (!Computes(i, stride)) return std::nullopt;
      change.layers.push_back(i);
      return change;
    }
    if (!IsPointwise(i) && !JoinsChannels(i)) return std::nullopt;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const BlobUse source = flow_.Source(i, b);
      std::optional<Change> one;
      if (source.layer >= 0 && flow_.Readers(source.layer, source.index).size() == 1) {
        one = ChangeOf(source, stride);
      }
      if (one) {
        change.layers.insert(change.layers.end(), one->layers.begin(), one->layers.end());
        change.picks.insert(change.picks.end(), one->picks.begin(), one->picks.end());
      } else {
        change.picks.push_back({i, b});
      }
    }
    return change.layers.empty() ? std::nullopt : std::optional(change);
  }

  void Apply(const BlobUse& top, const Stride& stride, const Change& change,
             TransformNotes* notes) {
    std::string computing;
    for (const int i : change.layers) {
      ConvolutionParameter* p = model_.mutable_layer(i)->mutable_convolution_param();
      const Stride own = StrideOf(*p);
      SetStride({own.h * stride.h, own.w * stride.w}, p);
      computing += (computing.empty() ? "" : ", ") + model_.layer(i).name();
    }
    std::string readers;
    for (const BlobUse& reader : flow_.Readers(top.layer, top.index)) {
      LayerParameter* layer = model_.mutable_layer(reader.layer);
      readers += (readers.empty() ? "" : ", ") + layer->name();
      if (layer->has_pooling_param()) {
        layer->mutable_pooling_param()->set_stride(1);
      } else {
        SetStride({}, layer->mutable_convolution_param());
      }
    }
    notes->push_back(Concat("the stride of ", readers, " moves to ", computing));
    InsertPicks(stride, change.picks, notes);
    // Poolings that pick every element copy it.
    for (int i = 0; i < model_.layer_size(); ++i) {
      if (IsPick(model_.layer(i)) && model_.layer(i).pooling_param().stride() == 1) {
        Bypass(&model_, i, KeptName::kBottom);
      }
    }
    model_ = WithoutRemovedLayers(std::move(model_));
  }

  void InsertPicks(const Stride& stride, const std::vector<BlobUse>& picks, TransformNotes* notes) {
    if (picks.empty()) return;
    const std::vector<std::string> names = UniqueLayerNames(model_);
    std::vector<std::string> before;
    NetParameter changed = model_;
    changed.clear_layer();
    for (int i = 0; i < model_.layer_size(); ++i) {
      LayerParameter* layer = model_.mutable_layer(i);
      for (const BlobUse& pick : picks) {
        if (pick.layer != i) continue;
        LayerParameter* pooling = changed.add_layer();
        pooling->set_type("Pooling");
        pooling->set_name(NewName(Concat(layer->bottom(pick.index), "_stride")));
        pooling->add_bottom(layer->bottom(pick.index));
        pooling->add_top(pooling->name());
        PoolingParameter* p = pooling->mutable_pooling_param();
        p->set_kernel_size(1);
        p->set_round_mode(PoolingParameter::FLOOR);  // as a convolution rounds
        SetStride(stride, p);
        notes->push_back(Concat(LayerTitle(*pooling), " picks what ", layer->name(), " reads of ",
                                layer->bottom(pick.index)));
        layer->set_bottom(pick.index, pooling->top(0));
        before.push_back(pooling->name());
      }
      before.push_back(names[i]);
      *changed.add_layer() = std::move(*layer);
    }
    model_ = std::move(changed);
    RenameRanges({}, before, &model_);
  }

  // A name that no layer and no blob has.
  std::string NewName(const std::string& wanted) const {
    const auto taken = [&](const std::string& name) {
      return std::any_of(model_.layer().begin(), model_.layer().end(),
                         [&](const LayerParameter& layer) {
                           return layer.name() == name ||
                                  std::count(layer.top().begin(), layer.top().end(), name) > 0;
                         });
    };
    std::string name = wanted;
    for (int n = 2; taken(name) || std::count(given_.begin(), given_.end(), name) > 0; ++n) {
      name = Concat(wanted, n);
    }
    given_.push_back(name);
    return name;
  }

  NetParameter& model_;
  const Flow flow_;
  const std::unique_ptr<Net> net_;
  std::vector<LayerFacts> facts_;
  mutable std::vector<std::string> given_;
};

}  // namespace

NetParameter MoveStrides(NetParameter model, TransformNotes* notes) {
  bool moved = false;
  // Each time a stride moves to a layer before it, so that this ends.
  while (Strides(&model).MoveOne(notes)) moved = true;
  if (!moved) notes->push_back(Concat("no blob is read with a stride alone"));
  return model;
}

}  // namespace caffe
