#include "recurrent_unit.hpp"

#include <algorithm>

namespace caffe {

LayerTraits RecurrentUnit::Traits() {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 4;
  traits.float_bottoms = traits.no_gradient_bottoms = {2};
  return traits;
}

void RecurrentUnit::SetUp(const BlobVec& bottom, const BlobVec& top, const std::string& name,
                          int gates) {
  for (const BlobBase* blob : top) {
    CAFFE_CHECK(std::find(bottom.begin(), bottom.end(), blob) == bottom.end(), Where(),
                ": does not work in place");
  }
  gates_ = gates;
  forward_ = MakeKernel("neuron/" + name, name + "_forward");
  backward_ = MakeKernel("neuron/" + name, name + "_backward");
}

void RecurrentUnit::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& state = bottom[0]->shape();
  CAFFE_CHECK(state.size() == 3 && state[0] == 1, Where(), ": bottom 0 must have the shape 1 N H; ",
              "it has shape ", ShapeString(state));
  rows_ = state[1];
  columns_ = state[2];
  const Shape gates{1, rows_, gates_ * columns_};
  for (const size_t b : {1, 3}) {
    CAFFE_CHECK(b >= bottom.size() || bottom[b]->shape() == gates, Where(), ": bottom ", b,
                " must have the shape ", ShapeString(gates), ", ", gates_,
                " gates of bottom 0; it has shape ", bottom[b]->shape_string());
  }
  CAFFE_CHECK(bottom[2]->shape() == Shape({1, rows_}), Where(), ": cont must have the shape 1 ",
              rows_, "; it has shape ", bottom[2]->shape_string());
  for (BlobBase* blob : top) blob->Reshape(state);
}

}  // namespace caffe
