#pragma once

#include <string>

#include "caffe/data/image.hpp"

namespace caffe {

// Letters of 5 x 7 pixels, for pictures that say something. A letter takes 6 x 9 with its gap.
constexpr int kLetterWidth = 6, kLineHeight = 9;

// Writes a line in black; (x, y) is its upper left corner. Bytes that are not printable ASCII
// become '?', one for each character of UTF-8. What is outside the image is left out.
void DrawText(const std::string& text, int x, int y, Image* image);

}  // namespace caffe
