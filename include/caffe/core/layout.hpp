#pragma once

#include <cstdint>

namespace caffe {

// The order of the elements of an array in memory. Its shape is (n, c, spatial axes…) in each.
//
// kNCHW is C order, which users see. In kNHWC axis 1 (channels) changes fastest: the order is
// n, spatial axes…, c. Both take the same number of bytes, and are the same if there is only one
// channel, or only one position. Between operators of a net, blobs may have either; see
// net/README.md.
enum class Layout { kNCHW, kNHWC };

// The layouts of an operator's input and output.
struct LayoutPair {
  Layout x = Layout::kNCHW, y = Layout::kNCHW;
  // In kNHWC, the elements from one position of the output to the next if it is a part of the
  // channels of a larger array; 0: its own channels.
  int64_t y_pitch = 0;
  bool operator==(const LayoutPair&) const = default;
};

inline const char* LayoutName(Layout layout) { return layout == Layout::kNCHW ? "NCHW" : "NHWC"; }

}  // namespace caffe
