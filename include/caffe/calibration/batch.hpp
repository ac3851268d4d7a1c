#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

// The inputs of a net for one forward.
struct Batch {
  std::map<std::string, std::vector<float>> values;  // by blob
  // The shapes of the values, where they are known. Images may differ from the net's input in
  // height and width; the input is then reshaped.
  std::map<std::string, Shape> shapes;
  // One for each item, or for each position of the scores; -1: unknown. Empty: all are unknown, or
  // they are an input of the net.
  std::vector<float> labels;
  Shape labels_shape;  // for messages
  // Images by their own height and width, so that exchanged ones are allowed.
  bool images = false;
  // The first items count; the others only fill the blobs. 0: leave out this batch. Negative: all.
  int64_t items = -1;
};

// Reads the batch of an index; returns false if there are no more. Called with 0, 1, …, several
// times from the beginning, with the same result each time.
using BatchReader = std::function<bool(int64_t index, Batch* batch)>;

}  // namespace caffe
