#include "caffe/layers/tile_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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

void RegisterTileLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.cast_side = [](const LayerParameter& layer) {
    return layer.tile_param().tiles() > 1 ? CastSide::kBefore : CastSide::kNone;
  };
  traits.summary = "repeats a blob along an axis";
  registry.Add<TileLayer>("Tile", traits);
}

}  // namespace caffe
