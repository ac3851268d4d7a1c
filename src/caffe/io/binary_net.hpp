#pragma once

#include <string>

namespace caffe {

class NetParameter;

// Upgrades a net that was parsed from a binary file; `path` is for messages.
void UpgradeBinaryNet(const std::string& path, NetParameter* net);

}  // namespace caffe
