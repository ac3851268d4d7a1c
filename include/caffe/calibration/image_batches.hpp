#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caffe/calibration/batch.hpp"
#include "caffe/core/shape.hpp"

namespace caffe {

// An image of a list or of a folder.
struct ImageItem {
  std::string path;  // without the root
  std::optional<int> label;
  std::string error;  // why it could not be read; empty: it was, or has not been tried
};

// Images as inputs of a deploy net.
struct ImageBatchOptions {
  // Images and folders, separated by commas, or one list, whose lines are "path label" or "path". A
  // folder stands for its files *.jpg, *.jpeg and *.png, in the order of their names.
  std::string list;
  std::string root;         // the folder of a list's paths
  std::vector<float> mean;  // of each channel of the input, or one number; empty is an error
  float scale = 1;          // the input is (pixel - mean) * scale
  // Crop the centre, after enlarging images that are smaller than the input; otherwise resize.
  bool crop_centre = false;
  // Neither: each image is a batch of its own, in its own size.
  bool keep_sizes = false;
  bool rgb = false;  // the order of the channels; otherwise blue green red
  // So many images come first; they are spread equally over the list, which may be sorted.
  int64_t first = 0;
};

class ImageBatches {
 public:
  // `shape` is that of the input blob: images, channels (1 or 3), height, width.
  ImageBatches(const ImageBatchOptions& options, std::string blob, const Shape& shape);
  // A BatchReader. Images that cannot be read are left out, with a warning.
  bool Read(int64_t index, Batch* batch);
  // The most images of a batch.
  int64_t batch_size() const { return options_.keep_sizes ? 1 : shape_[0]; }
  int64_t images() const { return static_cast<int64_t>(items_.size()); }
  // How many different images could not be read so far.
  int64_t unreadable() const;
  const std::vector<ImageItem>& items() const { return items_; }
  // The path of an item, with the root.
  std::string PathOf(const ImageItem& item) const;
  // The items that the last Read put into its batch, in their order.
  const std::vector<int64_t>& items_of_batch() const { return items_of_batch_; }

 private:
  void FindItems();
  void ReadList();
  // Appends the values of an image. Its height and width are written to `shape`.
  bool Load(ImageItem* item, std::vector<float>* values, Shape* shape) const;

  ImageBatchOptions options_;
  std::string blob_;
  Shape shape_;
  bool labelled_ = false;
  std::vector<ImageItem> items_;
  std::vector<int64_t> items_of_batch_;
};

}  // namespace caffe
