#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caffe {

class Datum;

// An 8-bit image in OpenCV's layout: rows of pixels, blue green red, or gray; opacity may follow.
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

// Throws, with `what` before the reason, if an image of this size is empty or has more pixels than
// MostPixels() allows.
void CheckImageSize(const std::string& what, uint64_t height, uint64_t width);

enum class ImageFormat { kNone, kJpeg, kPng };
// The format by the first bytes of a file.
ImageFormat FormatOf(std::string_view bytes);

// Decodes a JPEG or PNG file. If `color` is set, the result has 3 channels (true) or 1 (false)
// whatever the file has, transparency is dropped, and a JPEG is rotated by its Exif orientation.
// Without `color` the image is unchanged: 1 channel, 3, or 4 with transparency, and not rotated
// (IMREAD_UNCHANGED). Bits beyond 8 are dropped. Throws with `name` if the bytes are in another
// format, damaged or cut off, if they exceed a limit (data_limits.hpp), or if the library was built
// without the decoder. The size is checked before memory for the pixels is taken.
Image DecodeImage(std::string_view bytes, const std::string& name, std::optional<bool> color);

// Encodes an image (gray, or blue green red) as a PNG, which is lossless, or as a JPEG of quality
// 95, OpenCV's default. Throws if the library was built without the encoder.
std::string EncodeImage(const Image& image, ImageFormat format);

// Bilinear resizing with OpenCV's arithmetic, bit for bit: half-pixel centres, coefficients of 11
// bits, no anti-aliasing; exactly half the size is the mean of 2x2.
Image ResizeBilinear(const Image& image, int height, int width);

// Writes the pixels in the layout of records: channels, height, width.
void SetPixels(const Image& image, Datum* datum);

}  // namespace caffe
