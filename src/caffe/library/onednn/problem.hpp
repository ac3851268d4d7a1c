#pragma once

#include <optional>

#include "caffe/library/convolution.hpp"
#include "caffe/library/onednn/arrays.hpp"
#include "caffe/library/onednn/onednn_api.hpp"

namespace caffe::onednn {

// A descriptor in the terms of oneDNN. It computes with arrays in kNHWC.
struct Problem {
  // The elements of products are of the type `inner`.
  Problem(const ConvDescriptor& d, Element inner);
  Desc Y(Element type, Layout layout) const { return Desc(y_dims, type, Plain(layout, axes())); }
  // In C order.
  Desc Weights(Element type) const;
  Desc AnyWeights(Element type) const { return Desc(weight_dims, type, Tag::any); }
  int axes() const { return static_cast<int>(stride.size()); }

  Description Describe(Element y_type, Element weight_type, bool bias) const;

  const Element element;  // of products
  // oneDNN 2.6 multiplies windows of one element on the matrix units of processors with AMX, but
  // not if x is padded: a padded copy of x is made instead.
  const bool pads_copy;
  Dims x_dims, padded_dims, y_dims, weight_dims, stride, dilation, left, right;
};

// The residual is copied to y before the convolution, which adds its sums to y and rounds once.
// This reads and writes less memory than a pass over float sums. In float it does not. oneDNN
// contracts the product with another coefficient.
bool AddsToY(const ConvDescriptor& d, Element inner);

// The stages that follow oneDNN's convolution.
Epilogue Rest(const ConvDescriptor& d, Element inner);

// The type that oneDNN's convolution writes: that of the result, or float sums for a pass that
// rounds.
Element Stored(const ConvDescriptor& d, Element inner);

struct Plans {
  std::optional<onednn::ForwardPlan> forward;
  std::optional<onednn::DataPlan> data;
  std::optional<onednn::WeightsPlan> weights;
};

// Throws dnnl::error.
Plans PlanAll(const ConvDescriptor& d, const Problem& p);

// The forward pass with ReLU in oneDNN's convolution, whose maximum turns NaN into 0 and sets the
// flag of invalid operations. It reads the weights and takes the implementation of `plain`, the
// pass without ReLU. None if something else must follow the convolution, or oneDNN has no such
// pass.
std::optional<ForwardPlan> PlanReLU(const ConvDescriptor& d, const Problem& p,
                                    const ForwardPlan& plain);

}  // namespace caffe::onednn
