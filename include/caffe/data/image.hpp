#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caffe {

class Datum;

// An 8-bit image as OpenCV holds it: rows of pixels, blue green red, or gray; opacity may follow.
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

// Whether an image of this size is taken: at most 2^30 pixels, as in OpenCV.
inline bool FitsImage(uint64_t height, uint64_t width) {
  return height > 0 && width > 0 && height <= (uint64_t{1} << 30) / width;
}

enum class ImageFormat { kNone, kJpeg, kPng };
// What the first bytes of a file say.
ImageFormat FormatOf(std::string_view bytes);

// A JPEG or PNG file from memory; `color` decides between 3 channels and 1 whatever the file has,
// transparency is dropped, a JPEG is turned as its Exif orientation says. Without `color` the image
// is as it is stored: 1 channel, 3, or 4 with transparency, and not turned (IMREAD_UNCHANGED). Bits
// beyond 8 are dropped. Throws with `name` if the bytes are neither, are damaged or cut off, or if
// the library was built without the decoder.
Image DecodeImage(std::string_view bytes, const std::string& name, std::optional<bool> color);

// The image, gray or blue green red, as the bytes of a file: a PNG, which loses nothing, or a JPEG
// of quality 95, OpenCV's. Throws if the library was built without the encoder.
std::string EncodeImage(const Image& image, ImageFormat format);

// Bilinear with OpenCV's arithmetic, bit for bit: half-pixel centres, coefficients of 11 bits, no
// anti-aliasing; exactly half the size is the mean of 2x2.
Image ResizeBilinear(const Image& image, int height, int width);

// The pixels as records hold them: channels, height, width.
void SetPixels(const Image& image, Datum* datum);

}  // namespace caffe
