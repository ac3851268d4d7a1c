#pragma once

#include <string>
#include <string_view>

#include "caffe/data/image.hpp"

namespace caffe {

Image DecodePng(std::string_view bytes, const std::string& name, bool color);

}  // namespace caffe
