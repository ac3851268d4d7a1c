#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "caffe/library/convolution.hpp"

namespace caffe {

// Where the codes below the windows of a convolution lie in images [batch, channels, ...], with the
// padding around them.
class CodePatches {
 public:
  explicit CodePatches(const ConvDescriptor& descriptor);
  // Of an image.
  int64_t positions() const { return static_cast<int64_t>(starts_.size()); }
  // Codes of a channel with its padding.
  int64_t plane() const { return plane_; }
  bool pads() const { return !image_rows_.empty(); }
  int64_t padded_bytes() const { return padded_bytes_; }
  // Every window is one code, and the windows of a channel follow each other.
  bool points() const { return points_; }

  // Copies channel number `channel` of all images' channels and writes `zero` around it.
  template <class Code>
  void Pad(int64_t channel, const Code* images, Code* padded, Code zero) const {
    const Code* source = images + channel * image_plane_;
    Code* const target = padded + channel * plane_;
    std::fill(target, target + plane_, zero);
    for (const int64_t row : image_rows_) {
      std::memcpy(target + row, source, image_width_ * sizeof(Code));
      source += image_width_;
    }
  }

  // Writes the codes of a window over `channels` planes. Those of 16 bits are divided if the target
  // is i16: their high bytes lie `high` elements behind the low ones.
  template <class Code, class Target>
  void Gather(const Code* planes, int64_t position, int64_t channels, Target* target,
              int64_t high = 0) const {
    const Code* source = planes + starts_[position];
    for (int64_t c = 0; c < channels; ++c, source += plane_) {
      for (const int64_t tap : taps_) {
        for (int64_t i = 0; i < run_; ++i, ++target) {
          const int code = source[tap + i];
          if constexpr (sizeof(Code) == 1) {
            *target = static_cast<Target>(code);
          } else {
            target[0] = static_cast<Target>(code & 255);
            target[high] = static_cast<Target>(code >> 8);
          }
        }
      }
    }
  }

 private:
  bool points_;
  int64_t plane_ = 0, image_plane_ = 0, padded_bytes_ = 0;
  int64_t run_ = 1, image_width_ = 0;
  // Of each position, of each run of taps, and of each row of an image, in a plane with padding.
  std::vector<int64_t> starts_, taps_, image_rows_;
};

}  // namespace caffe
