#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/layout.hpp"

namespace caffe {

// Facts and costs of a step of a net's forward, computed from shapes before it runs; see
// Net::Steps.
struct StepInfo {
  // Names and types of its layers. Layers that the net added are steps, too: splits, casts.
  std::vector<std::string> layers, layer_types;
  // The library of its operator (Operator::library); "kernels" for a layer's own kernels; "chain"
  // for one kernel that computes all of its layers, which are element-wise; "host" if Forward uses
  // memory of the host or waits for the device, as in layers that read files. Empty: nothing is
  // computed, because the tops share the memory of a bottom, or the caller fills them. "producers":
  // the steps that write its bottoms write them as parts of its top.
  std::string library;
  TypeTriple types = TypeTriple::Equal(kFloat);
  // The layouts of the bottoms and tops that it computes with.
  LayoutPair layouts;
  // Blobs that are converted to another layout before and after it, as part of the step.
  int conversions = 0;
  // Bottoms that a layer which joins blobs (Concat) copies into its top.
  int copies = 0;
  // The operator's workspace; in phase TRAIN that of its backward passes, too.
  int64_t workspace_bytes = 0;
  // Bottoms read, parameters read in the operator's own form, and tops written, each once. Blobs
  // between the layers of the step do not count.
  int64_t bytes = 0;
  // A multiplication and an addition are two. A convolution, deconvolution or inner product has two
  // for each product of its sums (the bias is the first summand), also with padding and if its
  // algorithm needs fewer, and one for each element of a sum or activation after it. An
  // element-wise layer has one for each element; y = scale x + shift has two. No value for other
  // layers.
  std::optional<int64_t> operations;

  // "conv1 + bn1 + relu1"
  std::string name() const;
  // "NCHW", "NHWC"; "NCHW/NHWC" if the tops have another layout than the bottoms. Conversions that
  // the step begins or ends with are counted: "NHWC +2".
  std::string layout() const;
};

}  // namespace caffe
