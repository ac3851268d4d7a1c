#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {
namespace {

// Repeats the bottom along an axis: index i of the top's axis is index i % extent of the bottom's.
// The gradient is the sum over the repetitions.
// bottom 0: any shape; top 0: the same, but `tiles` times the extent along the axis. Not in place.
// tile_param: axis (1, from the end if negative), tiles (needed).
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Tile : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t outer_ = 0, row_ = 0;  // the bottom is [outer, row], and each row is repeated
  StridedCopy forward_;
  std::unique_ptr<Kernel> backward_;
};

template <class Dtype, class MItype, class MOtype>
using TileLayer = Layer<Dtype, MItype, MOtype, Tile>;

void Tile::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": cannot work in place; give blob ", bottom[0]->name(),
              " another name as top");
  const TileParameter& parameter = layer_param().tile_param();
  CAFFE_CHECK(parameter.has_tiles(), Where(),
              ": tile_param needs tiles, the number of repetitions");
  CAFFE_CHECK(parameter.tiles() > 0, Where(), ": tiles is ", parameter.tiles(),
              "; it must be positive");
  forward_ = StridedCopy(device(), types());
  backward_.reset();
  if (types().compute.is_float()) backward_ = MakeKernel("blas/tile", "tile_backward");
}

void Tile::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const TileParameter& parameter = layer_param().tile_param();
  Shape shape = bottom[0]->shape();
  const int axis = CanonicalAxis(shape, parameter.axis(), Where());
  outer_ = bottom[0]->count(0, axis);
  row_ = bottom[0]->count(axis);
  const int64_t tiles = parameter.tiles();
  shape[axis] *= tiles;
  top[0]->Reshape(shape);
  forward_.Reshape({{outer_, row_, tiles * row_}, {tiles, 0, row_}, {row_, 1, 1}});
}

void Tile::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_.Launch(In(bottom, 0), Out(top, 0));
}

void Tile::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  backward_->Launch({outer_, row_}, {outer_, row_, layer_param().tile_param().tiles(),
                                     top[0]->Diff(), bottom[0]->MutableDiff()});
}

LayerFacts Tile::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterTileLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.cast_side = [](const LayerParameter& layer) {
    return layer.tile_param().tiles() > 1 ? CastSide::kBefore : CastSide::kNone;
  };
  traits.per_item = [](const LayerParameter& layer) { return layer.tile_param().axis() > 0; };
  traits.summary = "repeats a blob along an axis";
  registry.Add<TileLayer>("Tile", traits);
}

}  // namespace caffe
