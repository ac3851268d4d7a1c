#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {

// One line "path label" of an image list.
struct ImageEntry {
  std::string path;
  int label = 0;
  int64_t line = 0;  // its line number, from 1
};

// The label follows the last blank of a line; empty lines are skipped. Throws, with file and line,
// if a label is not an integer, and if the list is empty.
std::vector<ImageEntry> ReadImageList(const std::string& path);

}  // namespace caffe
