#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// The same elements with another shape. The top shares the bottom's data and diff; nothing is
// copied.
// bottom 0: any shape; top 0: the bottom's, with num_axes axes from `axis` on replaced by
// reshape_param.shape, where 0 means the bottom's extent at that index and one -1 is inferred. Not
// in place.
// reshape_param: shape, axis (0; -1 appends), num_axes (-1: all that follow; 0 inserts).
// Types: all; the range of quantized blobs is carried through.
class ReshapeAxes : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  Shape TopShape(const Shape& shape) const;
};

template <class Dtype, class MItype, class MOtype>
using ReshapeLayer = Layer<Dtype, MItype, MOtype, ReshapeAxes>;

void ReshapeAxes::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": does not work in place");
  const auto& dims = layer_param().reshape_param().shape().dim();
  CAFFE_CHECK(std::count(dims.begin(), dims.end(), -1) <= 1, Where(),
              ": shape may hold one -1, not several");
  for (const int64_t dim : dims) {
    CAFFE_CHECK(dim >= -1, Where(), ": shape holds ", dim, "; 0 copies an extent, -1 infers it");
  }
}

Shape ReshapeAxes::TopShape(const Shape& shape) const {
  const ReshapeParameter& parameter = layer_param().reshape_param();
  const int axes = static_cast<int>(shape.size());
  const int begin = parameter.axis() >= 0 ? parameter.axis() : axes + parameter.axis() + 1;
  CAFFE_CHECK(begin >= 0 && begin <= axes, Where(), ": axis ", parameter.axis(),
              " does not fit a bottom of shape ", ShapeString(shape));
  CAFFE_CHECK(parameter.num_axes() >= -1, Where(), ": num_axes ", parameter.num_axes(),
              " must be -1, all that follow, or at least 0");
  const int end = parameter.num_axes() == -1 ? axes : begin + parameter.num_axes();
  CAFFE_CHECK(end <= axes, Where(), ": num_axes ", parameter.num_axes(), " from axis ", begin,
              " on exceed a bottom of shape ", ShapeString(shape));
  Shape result(shape.begin(), shape.begin() + begin);
  int inferred = -1;
  for (const int64_t dim : parameter.shape().dim()) {
    const int place = static_cast<int>(result.size());
    if (dim == 0) {
      CAFFE_CHECK(place < axes, Where(), ": 0 in shape copies axis ", place,
                  " of the bottom, whose shape is ", ShapeString(shape));
      result.push_back(shape[place]);
    } else {
      if (dim == -1) inferred = place;
      result.push_back(dim == -1 ? 1 : dim);
    }
  }
  result.insert(result.end(), shape.begin() + end, shape.end());
  const int64_t count = ShapeCount(shape), known = ShapeCount(result);
  if (inferred >= 0) {
    CAFFE_CHECK(known > 0 && count % known == 0, Where(), ": ", count,
                " elements of a bottom of shape ", ShapeString(shape),
                " cannot be divided by the product of the other extents, ", known);
    result[inferred] = count / known;
  } else {
    CAFFE_CHECK(known == count, Where(), ": a bottom of shape ", ShapeString(shape),
                " cannot become ", ShapeString(result), "; the counts must be equal");
  }
  return result;
}

void ReshapeAxes::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->Reshape(TopShape(bottom[0]->shape()));
  top[0]->ShareData(*bottom[0]);
}

void ReshapeAxes::Forward(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ShareData(*bottom[0]);
}

void ReshapeAxes::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                           const BlobVec& bottom) {
  if (propagate_down[0]) bottom[0]->ShareDiff(*top[0]);
}

LayerFacts ReshapeAxes::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  facts.aliases = {{0, 0}};
  return facts;
}

}  // namespace

void RegisterReshapeLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kSharedIfAlone;
  traits.per_item = [](const LayerParameter& layer) {
    const ReshapeParameter& parameter = layer.reshape_param();
    const bool keeps = parameter.shape().dim_size() > 0 && parameter.shape().dim(0) == 0;
    return parameter.axis() > 0 || (parameter.axis() == 0 && keeps);
  };
  traits.summary = "the same elements under another shape";
  registry.Add<ReshapeLayer>("Reshape", traits);
}

}  // namespace caffe
