#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/step_info.hpp"
#include "support/layer_tester.hpp"

namespace caffe {

inline NetParameter ParseNet(const std::string& text) {
  NetParameter net;
  CAFFE_CHECK(google::protobuf::TextFormat::ParseFromString(text, &net), "not a net: ", text);
  return net;
}

// A net with a fixed seed, so that two of one text have the same parameters.
inline std::unique_ptr<Net> MakeNet(const std::string& text, Device* device, int phase = 1) {
  NetOptions options;
  options.device = device;
  options.phase = phase;
  options.seed = 1701;
  return std::make_unique<Net>(ParseNet(text), options);
}

inline std::string InputText(const std::string& name, const Shape& shape) {
  std::string text =
      "layer { name: '" + name + "' type: 'Input' top: '" + name + "' input_param { shape {";
  for (int64_t extent : shape) text += " dim: " + std::to_string(extent);
  return text + " } } } ";
}

inline std::string InnerProductText(const std::string& name, const std::string& bottom, int outputs,
                                    const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" +
         name + "' inner_product_param { num_output: " + std::to_string(outputs) +
         " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
         " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } " +
         more + " } ";
}

// In place.
inline std::string ReluText(const std::string& name, const std::string& blob) {
  return "layer { name: '" + name + "' type: 'ReLU' bottom: '" + blob + "' top: '" + blob + "' } ";
}

inline std::vector<double> Values(const Net& net, const std::string& blob) {
  return net.BlobByName(blob)->DataAsDouble();
}

// Fills every input with the numbers of a seed, `label` with classes 0 and 1.
inline void FillInputs(Net* net, uint64_t seed = 3) {
  for (BlobBase* blob : net->input_blobs()) {
    std::vector<double> values = TestNumbers(blob->count(), seed++);
    if (blob->name() == "label") {
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 2);
    }
    blob->SetData(values);
  }
}

template <class Function> std::string MessageOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Whether whole passes compute in C order alone. Where libraries prefer NHWC, they round in another
// way than passes that store every blob.
inline bool InCOrder(Net* net) {
  const std::vector<StepInfo> steps = net->Steps();
  return std::all_of(steps.begin(), steps.end(),
                     [](const StepInfo& step) { return step.layouts == LayoutPair{}; });
}

}  // namespace caffe
