#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"

namespace caffe {

inline NetParameter ParseNet(const std::string& text) {
  NetParameter net;
  CAFFE_CHECK(google::protobuf::TextFormat::ParseFromString(text, &net), "not a net: ", text);
  return net;
}

inline TypedNet TypedOf(const std::string& text) { return AssignTypes(ParseNet(text)); }

// A line for each layer, "fc1 (InnerProduct) a, b -> c", with " half" or " float/half/half"
// (compute/in/out) behind where its types are not all float; "-> x, y:float" for a top that has a
// type of its own.
inline std::string Wiring(const TypedNet& net) {
  std::string out;
  for (const TypedLayer& typed : net.layers) {
    const LayerParameter& layer = typed.layer;
    out += layer.name() + " (" + layer.type() + ")";
    for (int i = 0; i < layer.bottom_size(); ++i) out += (i ? ", " : " ") + layer.bottom(i);
    out += " ->";
    for (int i = 0; i < layer.top_size(); ++i) {
      out += (i ? ", " : " ") + layer.top(i);
      if (typed.tops[i] != typed.types.out) out += ":" + typed.tops[i].name();
    }
    if (typed.types != TypeTriple::Equal(kFloat)) out += " " + typed.types.name();
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
