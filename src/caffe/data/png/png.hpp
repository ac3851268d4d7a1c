#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "caffe/data/image.hpp"

namespace caffe {

Image DecodePng(std::string_view bytes, const std::string& name, std::optional<bool> color);

std::string EncodePng(const Image& image);

}  // namespace caffe
