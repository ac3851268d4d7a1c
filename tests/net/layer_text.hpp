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

}  // namespace caffe
