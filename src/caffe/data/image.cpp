#include "caffe/data/image.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/data/data_limits.hpp"
#include "caffe/data/jpeg/jpeg.hpp"
#include "caffe/data/png/png.hpp"

namespace caffe {
namespace {

// Exif orientations: 2, 4, 5 and 7 are mirrored; from 5 on rows and columns are swapped.
Image Turn(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool swap = orientation >= 5;
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image turned = image;
  if (swap) std::swap(turned.height, turned.width);
  uint8_t* target = turned.pixels.data();
  for (int y = 0; y < turned.height; ++y) {
    for (int x = 0; x < turned.width; ++x) {
      // The pixel's position in the file.
      int from_y = swap ? x : y, from_x = swap ? y : x;
      if (flip_y) from_y = image.height - 1 - from_y;
      if (flip_x) from_x = image.width - 1 - from_x;
      const size_t from = (static_cast<size_t>(from_y) * image.width + from_x) * image.channels;
      target = std::copy_n(image.pixels.data() + from, image.channels, target);
    }
  }
  return turned;
}

// One axis of a bilinear resize: for each target index the first of its two sources, which may be
// out of range, and the weights of both, in units of 1/2048.
struct Taps {
  std::vector<int> first;
  std::vector<int> weight0, weight1;
};

Taps MakeTaps(int from, int to, bool clamp) {
  constexpr float kOne = 2048;
  const double scale = 1 / (static_cast<double>(to) / from);
  Taps taps;
  for (int i = 0; i < to; ++i) {
    float position = static_cast<float>((i + 0.5) * scale - 0.5);
    int first = static_cast<int>(std::floor(position));
    float rest = position - static_cast<float>(first);
    if (clamp && (first < 0 || first >= from - 1)) {
      first = first < 0 ? 0 : from - 1;
      rest = 0;
    }
    taps.first.push_back(first);
    taps.weight0.push_back(static_cast<int>(std::lrintf((1.f - rest) * kOne)));
    taps.weight1.push_back(static_cast<int>(std::lrintf(rest * kOne)));
  }
  return taps;
}

Image Halve(const Image& image) {
  Image half{image.height / 2, image.width / 2, image.channels, {}};
  half.pixels.reserve(image.pixels.size() / 4);
  const size_t step = static_cast<size_t>(image.width) * image.channels;
  for (int y = 0; y < half.height; ++y) {
    const uint8_t* above = image.pixels.data() + 2 * y * step;
    const uint8_t* below = above + step;
    for (int x = 0; x < half.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        const size_t at = size_t{2} * x * image.channels + c, next = at + image.channels;
        const int sum = above[at] + above[next] + below[at] + below[next];
        half.pixels.push_back(static_cast<uint8_t>((sum + 2) >> 2));
      }
    }
  }
  return half;
}

// Returns the name of the format of the bytes if it is known but not read; otherwise empty text.
std::string_view UnreadFormat(std::string_view bytes) {
  if (bytes.starts_with("BM")) return "BMP";
  if (bytes.starts_with("GIF8")) return "GIF";
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return "WebP";
  if (bytes.starts_with(std::string_view("II*\0", 4)) ||
      bytes.starts_with(std::string_view("MM\0*", 4))) {
    return "TIFF";
  }
  const bool portable = bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
                        (bytes[2] == '\n' || bytes[2] == ' ' || bytes[2] == '\r');
  return portable ? "PNM (PBM, PGM or PPM)" : "";
}

[[noreturn]] void ThrowNotRead(std::string_view bytes, const std::string& name) {
  if (bytes.empty()) CAFFE_THROW(name, " is empty");
  std::string text = name + " is neither a JPEG nor a PNG file";
  if (const std::string_view format = UnreadFormat(bytes); !format.empty()) {
    text += Concat(", but a ", format, " file");
    const std::filesystem::path path(name);
    if (path.has_extension()) {
      const std::string png = std::filesystem::path(path).replace_extension(".png").string();
      text += Concat("; convert it: python3 -c \"from PIL import Image; Image.open('", name,
                     "').convert('RGB').save('", png, "')\"");
    }
  }
  CAFFE_THROW(text);
}

}  // namespace

ImageFormat FormatOf(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  return ImageFormat::kNone;
}

void CheckImageSize(const std::string& what, uint64_t height, uint64_t width) {
  CAFFE_CHECK(height > 0 && width > 0, what, " has no pixels: its size is ", height, " x ", width);
  CAFFE_CHECK(height <= static_cast<uint64_t>(MostPixels().most) / width, what, " has ", height,
              " x ", width, " pixels; ", MostPixels().ToString());
}

Image DecodeImage(std::string_view bytes, const std::string& name, std::optional<bool> color) {
  const ImageFormat format = FormatOf(bytes);
  if (format == ImageFormat::kNone) ThrowNotRead(bytes, name);
  return NamingMemory(name, [&] {
    if (format == ImageFormat::kPng) return DecodePng(bytes, name, color);
    int orientation = 1;
    Image image = DecodeJpeg(bytes, name, color, &orientation);
    return Turn(std::move(image), color ? orientation : 1);
  });
}

std::string EncodeImage(const Image& image, ImageFormat format) {
  CAFFE_CHECK(image.height > 0 && image.width > 0, "cannot encode an empty image");
  CAFFE_CHECK(image.channels == 1 || image.channels == 3, "cannot encode an image of ",
              image.channels, " channels; it must have 1 or 3");
  CAFFE_CHECK(format != ImageFormat::kNone, "cannot encode an image without a format");
  return format == ImageFormat::kJpeg ? EncodeJpeg(image) : EncodePng(image);
}

Image ResizeBilinear(const Image& image, int height, int width) {
  CAFFE_CHECK(height > 0 && width > 0, "cannot resize an image to ", height, " x ", width);
  CheckImageSize("the resized image", height, width);
  CAFFE_CHECK(image.height > 0 && image.width > 0, "cannot resize an empty image");
  if (height == image.height && width == image.width) return image;
  if (image.height % 2 == 0 && height == image.height / 2 && image.width % 2 == 0 &&
      width == image.width / 2) {
    return Halve(image);
  }
  const int channels = image.channels;
  const Taps x_taps = MakeTaps(image.width, width, true);
  const Taps y_taps = MakeTaps(image.height, height, false);
  const size_t from_step = static_cast<size_t>(image.width) * channels;
  const size_t step = static_cast<size_t>(width) * channels;
  Image resized{height, width, channels, std::vector<uint8_t>(step * height)};
  // Rows of the image, resized along x; the last two are kept.
  std::vector<int> rows[2] = {std::vector<int>(step), std::vector<int>(step)};
  int kept[2] = {-1, -1};
  const auto resize_row = [&](int y, std::vector<int>& row) {
    const uint8_t* from = image.pixels.data() + y * from_step;
    for (size_t x = 0; x < static_cast<size_t>(width); ++x) {
      const size_t first = x_taps.first[x], second = std::min<size_t>(first + 1, image.width - 1);
      for (int c = 0; c < channels; ++c) {
        row[x * channels + c] = from[first * channels + c] * x_taps.weight0[x] +
                                from[second * channels + c] * x_taps.weight1[x];
      }
    }
  };
  for (int y = 0; y < height; ++y) {
    const int lines[2] = {std::clamp(y_taps.first[y], 0, image.height - 1),
                          std::clamp(y_taps.first[y] + 1, 0, image.height - 1)};
    if (kept[1] == lines[0] && kept[0] != lines[0]) {
      std::swap(rows[0], rows[1]);
      std::swap(kept[0], kept[1]);
    }
    for (int k = 0; k < 2; ++k) {
      if (kept[k] != lines[k]) resize_row(lines[k], rows[k]);
      kept[k] = lines[k];
    }
    const int weight0 = y_taps.weight0[y], weight1 = y_taps.weight1[y];
    uint8_t* target = resized.pixels.data() + y * step;
    for (size_t i = 0; i < step; ++i) {
      // Each product drops its low bits separately, as OpenCV's vector code does.
      const int sum = ((rows[0][i] >> 4) * weight0 >> 16) + ((rows[1][i] >> 4) * weight1 >> 16);
      target[i] = static_cast<uint8_t>(std::clamp((sum + 2) >> 2, 0, 255));
    }
  }
  return resized;
}

void SetPixels(const Image& image, Datum* datum) {
  datum->Clear();
  datum->set_channels(image.channels);
  datum->set_height(image.height);
  datum->set_width(image.width);
  const size_t plane = static_cast<size_t>(image.height) * image.width;
  std::string* bytes = datum->mutable_data();
  bytes->resize(plane * image.channels);
  for (int c = 0; c < image.channels; ++c) {
    char* target = bytes->data() + c * plane;
    const uint8_t* from = image.pixels.data() + c;
    for (size_t i = 0; i < plane; ++i) target[i] = static_cast<char>(from[i * image.channels]);
  }
}

}  // namespace caffe
