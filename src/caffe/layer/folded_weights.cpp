#include "caffe/layer/folded_weights.hpp"

#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/quant/packed_parameter.hpp"

namespace caffe {
namespace {

std::vector<const BlobBase*> Sources(const BlobBase* weights, const BlobBase* bias,
                                     const std::vector<Affine>& maps) {
  std::vector<const BlobBase*> sources{weights};
  if (bias) sources.push_back(bias);
  for (const Affine& map : maps) {
    sources.insert(sources.end(), map.sources.begin(), map.sources.end());
  }
  return sources;
}

}  // namespace

FoldedWeights::FoldedWeights(const BlobBase* weights, const BlobBase* bias, const Layout& layout,
                             std::vector<Affine> maps)
    : Derived(Sources(weights, bias, maps)),
      weights_(weights),
      bias_(bias),
      layout_(layout),
      maps_(std::move(maps)),
      folded_weights_(MakeBlob(weights->type(), weights->device(), weights->shape(),
                               weights->name() + " folded")),
      folded_bias_(MakeBlob(weights->type(), weights->device(), {layout.channels},
                            weights->name() + " folded bias")) {}

void FoldedWeights::Build() {
  const int64_t channels = layout_.channels;
  std::vector<double> scale(channels, 1), shift(channels, 0);
  if (bias_) shift = bias_->DataAsDouble();
  for (const Affine& map : maps_) {
    std::vector<double> a, b;
    map.evaluate(&a, &b);
    const size_t count = a.size();
    CAFFE_CHECK((count == 1 || count == static_cast<size_t>(channels)) && b.size() == count,
                "blob ", weights_->name(), ": ", count, " scales and ", b.size(),
                " shifts cannot be folded into ", channels, " channels");
    for (int64_t c = 0; c < channels; ++c) {
      const double s = a[count == 1 ? 0 : c], t = b[count == 1 ? 0 : c];
      scale[c] *= s;
      shift[c] = shift[c] * s + t;
    }
  }
  std::vector<double> weights = ParameterValues(*weights_);
  const int64_t per_group = channels / layout_.group;
  const int64_t inner =
      static_cast<int64_t>(weights.size()) / (layout_.group * layout_.outer * per_group);
  int64_t at = 0;
  for (int64_t g = 0; g < layout_.group; ++g) {
    for (int64_t o = 0; o < layout_.outer; ++o) {
      for (int64_t j = 0; j < per_group; ++j) {
        for (const int64_t end = at + inner; at < end; ++at)
          weights[at] *= scale[g * per_group + j];
      }
    }
  }
  folded_weights_->Reshape(weights_->shape());
  folded_weights_->SetData(weights);
  folded_bias_->SetData(shift);
}

}  // namespace caffe
