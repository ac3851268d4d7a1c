#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "caffe/data/image.hpp"

namespace caffe {

// The pixels of a JPEG file before rotation, and its Exif orientation, 1 to 8.
Image DecodeJpeg(std::string_view bytes, const std::string& name, std::optional<bool> color,
                 int* orientation);

std::string EncodeJpeg(const Image& image);

}  // namespace caffe
