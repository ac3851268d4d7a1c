#pragma once

#include <memory>
#include <string>

#include "caffe.pb.h"
#include "caffe/net/net.hpp"

namespace caffe::fuzz {

// A message from its text, which is a part of a target.
NetParameter NetFromText(const std::string& text);
// A net on the CPU, with weights of a fixed seed.
std::unique_ptr<Net> MakeNet(const std::string& text, Phase phase = TEST);
// All values of the parameters of a net, bit for bit.
std::string WeightBytes(const Net& net);

}  // namespace caffe::fuzz
