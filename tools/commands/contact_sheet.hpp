#pragma once

#include <string>
#include <vector>

#include "caffe/data/image.hpp"

namespace caffe {

// A picture of a contact sheet with the lines below it.
struct SheetCell {
  Image picture;  // blue green red; without pixels: a grey field
  std::vector<std::string> lines;
};

// The most cells of a sheet.
constexpr int kMostCells = 400;

// An image made smaller or larger, with its own proportions, so that it fits into a cell.
Image Thumbnail(Image image);

// The cells in rows, from left to right. Lines that are too long for a cell are cut off.
Image ContactSheet(const std::vector<SheetCell>& cells);

}  // namespace caffe
