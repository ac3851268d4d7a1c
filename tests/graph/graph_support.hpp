#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"

namespace caffe {

inline NetParameter ParseNet(const std::string& text) {
  NetParameter net;
  CAFFE_CHECK(google::protobuf::TextFormat::ParseFromString(text, &net), "not a net: ", text);
  return net;
}

// A line for each layer, "fc1 (InnerProduct) a, b -> c", with " half" or " float/half/half"
// (compute/in/out) behind where its types are given and not all float; "-> x, y:float" for a top that
// has a type of its own.
inline std::string Wiring(const NetParameter& net) {
  std::string out;
  for (const LayerParameter& layer : net.layer()) {
    out += layer.name() + " (" + layer.type() + ")";
    for (int i = 0; i < layer.bottom_size(); ++i) out += (i ? ", " : " ") + layer.bottom(i);
    out += " ->";
    for (int i = 0; i < layer.top_size(); ++i) {
      out += (i ? ", " : " ") + layer.top(i);
      const DataType type = TopType(layer, i);
      if (type != DataTypeByProto(layer.top_data_type())) out += ":" + type.name();
    }
    if (layer.has_compute_data_type()) {
      const TypeTriple types{DataTypeByProto(layer.compute_data_type()),
                             DataTypeByProto(layer.bottom_data_type()),
                             DataTypeByProto(layer.top_data_type())};
      if (types != TypeTriple::Equal(kFloat)) out += " " + types.name();
    }
    out += "\n";
  }
  return out;
}

template <class Function> std::string MessageOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace caffe
