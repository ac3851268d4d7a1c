#include "caffe/layer/layer_facts.hpp"

namespace caffe {

Affine Affine::Constant(double scale, double shift) {
  Affine affine;
  affine.evaluate = [=](std::vector<double>* scales, std::vector<double>* shifts) {
    scales->assign(1, scale);
    shifts->assign(1, shift);
  };
  return affine;
}

}  // namespace caffe
