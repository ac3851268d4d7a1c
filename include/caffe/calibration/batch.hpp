#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace caffe {

// The inputs of a net for one forward.
struct Batch {
  std::map<std::string, std::vector<float>> values;  // by blob
  std::vector<int> labels;                           // one for each item; empty: unknown
  // The first items count; the others only fill the blobs. 0: leave out this batch. Negative: all.
  int64_t items = -1;
};

// Reads the batch of an index; returns false if there are no more. Called with 0, 1, …, several
// times from the beginning, with the same result each time.
using BatchReader = std::function<bool(int64_t index, Batch* batch)>;

}  // namespace caffe
