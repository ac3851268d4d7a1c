#pragma once

#include <string>

#include "caffe/layer/layer_types.hpp"

namespace caffe {

class NetParameter;

// The net of a prototxt, upgraded. Errors about unknown fields list layers of unknown types, too.
// `lines` is for NetOptions::lines.
NetParameter ReadNetFile(const std::string& path, LayerLines* lines = nullptr);

}  // namespace caffe
