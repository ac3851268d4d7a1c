#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {

// A line "path label" of a list of images.
struct ImageEntry {
  std::string path;
  int label = 0;
  int64_t line = 0;  // its number, from 1
};

// The label stands behind the last blank of a line; empty lines are skipped. Throws, with file and
// line, where there is no whole number, and if there are no images.
std::vector<ImageEntry> ReadImageList(const std::string& path);

}  // namespace caffe
