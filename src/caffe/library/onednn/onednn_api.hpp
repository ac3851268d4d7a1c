#pragma once

#include <dnnl.hpp>

namespace caffe::onednn {

// A convolution as oneDNN describes it. oneDNN counts a dilation from 0.
struct Description {
  dnnl::memory::desc x, weights, bias, y;
  bool has_bias = false;
  dnnl::memory::dims stride, dilation, pad_left, pad_right;
};

using ForwardPlan = dnnl::convolution_forward::primitive_desc;
using DataPlan = dnnl::convolution_backward_data::primitive_desc;
using WeightsPlan = dnnl::convolution_backward_weights::primitive_desc;

// Adds ReLU to what follows a convolution.
void AppendReLU(dnnl::post_ops* stages);

// The constructors that are different in oneDNN 2 and 3. All throw dnnl::error if oneDNN has no
// implementation.
ForwardPlan PlanForward(const dnnl::engine& engine, const Description& c, bool training,
                        const dnnl::primitive_attr& attributes);
DataPlan PlanBackwardData(const dnnl::engine& engine, const Description& c,
                          const ForwardPlan& forward, const dnnl::primitive_attr& attributes);
WeightsPlan PlanBackwardWeights(const dnnl::engine& engine, const Description& c,
                                const ForwardPlan& forward, const dnnl::primitive_attr& attributes);

}  // namespace caffe::onednn
