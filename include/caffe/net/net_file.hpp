#pragma once

#include <string>

#include "caffe/layer/layer_types.hpp"

namespace caffe {

class NetParameter;

// Reads and upgrades the net of a prototxt. Errors about unknown fields also list layers of unknown
// types. `lines` is for NetOptions::lines.
NetParameter ReadNetFile(const std::string& path, LayerLines* lines = nullptr);

}  // namespace caffe
