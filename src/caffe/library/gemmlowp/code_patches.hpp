#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "caffe/library/convolution.hpp"

namespace caffe {

// Where the codes of 8 bits below the windows of a convolution lie in images [batch, channels,
// ...], with the padding around them.
class CodePatches {
 public:
  explicit CodePatches(const ConvDescriptor& descriptor);
  // The number of positions of an image.
  int64_t positions() const { return static_cast<int64_t>(starts_.size()); }
  // Codes of a channel with its padding.
  int64_t plane() const { return plane_; }
  bool pads() const { return !image_rows_.empty(); }
  int64_t padded_bytes() const { return padded_bytes_; }
  // Every window is one code, and the windows of a channel follow each other.
  bool points() const { return points_; }

  // Copies channel number `channel` of all images' channels and writes `zero` around it.
  void Pad(int64_t channel, const uint8_t* images, uint8_t* padded, uint8_t zero) const {
    const uint8_t* source = images + channel * image_plane_;
    uint8_t* const target = padded + channel * plane_;
    std::fill(target, target + plane_, zero);
    for (const int64_t row : image_rows_) {
      std::memcpy(target + row, source, image_width_);
      source += image_width_;
    }
  }

  // Writes the codes of a window over `channels` planes.
  void Gather(const uint8_t* planes, int64_t position, int64_t channels, uint8_t* target) const {
    const uint8_t* source = planes + starts_[position];
    for (int64_t c = 0; c < channels; ++c, source += plane_) {
      for (const int64_t tap : taps_) {
        for (int64_t i = 0; i < run_; ++i) *target++ = source[tap + i];
      }
    }
  }

 private:
  bool points_;
  int64_t plane_ = 0, image_plane_ = 0, padded_bytes_ = 0;
  int64_t run_ = 1, image_width_ = 0;
  // The places of each position, run of taps, and row of an image, in a plane with padding.
  std::vector<int64_t> starts_, taps_, image_rows_;
};

}  // namespace caffe
