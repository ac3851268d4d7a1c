#pragma once

#include <string>

namespace caffe {

// "there is no layer type 'X'", and behind it what X is in another Caffe, or a known type that is near.
std::string ThereIsNoLayerType(const std::string& type);

}  // namespace caffe
