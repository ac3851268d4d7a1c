#include "caffe/layer/type_of_top.hpp"

#include <algorithm>

namespace caffe {

DataType TypeOfTop(const LayerTraits& traits, int t, DataType type) {
  const auto& floats = traits.float_tops;
  if (std::find(floats.begin(), floats.end(), t) != floats.end()) return kFloat;
  const bool loss = traits.loss && t == 0;
  return loss && type != kDouble ? kFloat : type;
}

}  // namespace caffe
