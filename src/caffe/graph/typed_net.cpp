#include "caffe/graph/typed_net.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

std::string TypedNet::ToString() const {
  std::string text;
  for (const TypedLayer& typed : layers) {
    std::string tops;
    for (const DataType type : typed.tops) tops += " " + type.name();
    text += Concat("layer {\n", typed.layer.DebugString(), "}  # ", typed.types.name(),
                   tops.empty() ? "" : ", tops:", tops, "\n");
  }
  return text;
}

bool IsInPlace(const LayerParameter& layer, int index) {
  return index < layer.bottom_size() && index < layer.top_size() &&
         layer.bottom(index) == layer.top(index);
}

}  // namespace caffe
