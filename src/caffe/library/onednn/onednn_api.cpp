#include "caffe/library/onednn/onednn_api.hpp"

namespace caffe::onednn {
namespace {

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::prop_kind Kind(bool training) {
  return training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
}

}  // namespace

#if DNNL_VERSION_MAJOR >= 3

void AppendReLU(dnnl::post_ops* stages) {
  stages->append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
}

ForwardPlan PlanForward(const dnnl::engine& engine, const Description& c, bool training,
                        const dnnl::primitive_attr& attributes) {
  return ForwardPlan(engine, Kind(training), kDirect, c.x, c.weights,
                     c.has_bias ? c.bias : dnnl::memory::desc(), c.y, c.stride, c.dilation,
                     c.pad_left, c.pad_right, attributes);
}

DataPlan PlanBackwardData(const dnnl::engine& engine, const Description& c,
                          const ForwardPlan& forward, const dnnl::primitive_attr& attributes) {
  return DataPlan(engine, kDirect, c.x, c.weights, c.y, c.stride, c.dilation, c.pad_left,
                  c.pad_right, forward, attributes);
}

WeightsPlan PlanBackwardWeights(const dnnl::engine& engine, const Description& c,
                                const ForwardPlan& forward,
                                const dnnl::primitive_attr& attributes) {
  return WeightsPlan(engine, kDirect, c.x, c.weights, c.y, c.stride, c.dilation, c.pad_left,
                     c.pad_right, forward, attributes);
}

#else

void AppendReLU(dnnl::post_ops* stages) {
  stages->append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
}

ForwardPlan PlanForward(const dnnl::engine& engine, const Description& c, bool training,
                        const dnnl::primitive_attr& attributes) {
  using Desc = dnnl::convolution_forward::desc;
  const Desc desc = c.has_bias ? Desc(Kind(training), kDirect, c.x, c.weights, c.bias, c.y,
                                      c.stride, c.dilation, c.pad_left, c.pad_right)
                               : Desc(Kind(training), kDirect, c.x, c.weights, c.y, c.stride,
                                      c.dilation, c.pad_left, c.pad_right);
  return ForwardPlan(desc, attributes, engine);
}

DataPlan PlanBackwardData(const dnnl::engine& engine, const Description& c,
                          const ForwardPlan& forward, const dnnl::primitive_attr& attributes) {
  return DataPlan({kDirect, c.x, c.weights, c.y, c.stride, c.dilation, c.pad_left, c.pad_right},
                  attributes, engine, forward);
}

WeightsPlan PlanBackwardWeights(const dnnl::engine& engine, const Description& c,
                                const ForwardPlan& forward,
                                const dnnl::primitive_attr& attributes) {
  return WeightsPlan({kDirect, c.x, c.weights, c.y, c.stride, c.dilation, c.pad_left, c.pad_right},
                     attributes, engine, forward);
}

#endif

}  // namespace caffe::onednn
