#pragma once

#include <cstdint>
#include <string>

#include "caffe/data/image.hpp"

namespace caffe {

// An image with numbers that repeat late: element i is (7 i i + 13 i) / 3 + start, modulo 256.
inline Image TestImage(int height, int width, int channels, int start = 0) {
  Image image{height, width, channels, {}};
  for (int64_t i = 0; i < int64_t{height} * width * channels; ++i) {
    image.pixels.push_back(static_cast<uint8_t>((7 * i * i + 13 * i) / 3 + start));
  }
  return image;
}

inline std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// A chunk of a PNG file, with its checksum.
inline std::string PngChunk(const std::string& kind, const std::string& data) {
  uint32_t crc = ~0u;
  for (unsigned char byte : kind + data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return BigEndian(static_cast<uint32_t>(data.size())) + kind + data + BigEndian(~crc);
}

// The image as a PNG file without compression: gray, or red green blue.
inline std::string PngOf(const Image& image) {
  std::string rows;
  const int step = image.width * image.channels;
  for (int y = 0; y < image.height; ++y) {
    rows += '\0';  // no filter
    for (int i = 0; i < step; ++i) {
      const int place = image.channels == 3 ? i / 3 * 3 + 2 - i % 3 : i;  // blue comes last
      rows += static_cast<char>(image.pixels[y * step + place]);
    }
  }
  uint32_t low = 1, high = 0;
  for (unsigned char byte : rows) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  std::string stream = "\x78\x01";
  for (size_t at = 0; at < rows.size(); at += 65535) {
    const std::string part = rows.substr(at, 65535);
    const auto size = static_cast<uint16_t>(part.size());
    stream += at + 65535 >= rows.size() ? '\1' : '\0';
    for (const uint16_t word : {size, static_cast<uint16_t>(~size)}) {
      stream += static_cast<char>(word);
      stream += static_cast<char>(word >> 8);
    }
    stream += part;
  }
  stream += BigEndian(high << 16 | low);
  const std::string head = BigEndian(image.width) + BigEndian(image.height) + '\x08' +
                           (image.channels == 3 ? '\x02' : '\0') + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", head) + PngChunk("IDAT", stream) +
         PngChunk("IEND", "");
}

}  // namespace caffe
