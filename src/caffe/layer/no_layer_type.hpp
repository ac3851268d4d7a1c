#pragma once

#include <string>

namespace caffe {

// "there is no layer type 'X'", followed by the Caffe that has X, or by a similar known type.
std::string ThereIsNoLayerType(const std::string& type);

}  // namespace caffe
