#pragma once

#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"

namespace caffe {

// The setting of a net that computes in a type.
inline std::string TypeText(DataType type) {
  return "data_type: " + DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)) + " ";
}

inline std::string LayerText(const std::string& type, const std::string& name,
                             const std::vector<std::string>& bottoms, const std::string& top,
                             const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "' ";
  for (const std::string& bottom : bottoms) text += "bottom: '" + bottom + "' ";
  return text + "top: '" + top + "' " + more + " } ";
}

// A convolution whose top has the extents of its bottom; the kernel is odd.
inline std::string PaddedConvText(const std::string& name, const std::string& bottom, int outputs,
                                  int kernel = 1) {
  return LayerText("Convolution", name, {bottom}, name,
                   "convolution_param { num_output: " + std::to_string(outputs) + " kernel_size: " +
                       std::to_string(kernel) + " pad: " + std::to_string(kernel / 2) +
                       " weight_filler { type: 'uniform' min: -0.4 max: 0.4 }"
                       " bias_filler { type: 'uniform' min: -0.4 max: 0.4 } }");
}

}  // namespace caffe
