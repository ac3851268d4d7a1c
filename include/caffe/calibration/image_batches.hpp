#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caffe/calibration/batch.hpp"
#include "caffe/core/shape.hpp"

namespace caffe {

// The images of a list as inputs of a deploy net. A line is "path label" or "path".
struct ImageBatchOptions {
  std::string list, root;
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
  int64_t images() const { return static_cast<int64_t>(entries_.size()); }
  // How many different images could not be read so far.
  int64_t unreadable() const;

 private:
  struct Entry {
    std::string path;
    std::optional<int> label;
    bool unreadable = false;
  };
  void ReadList();
  // Appends the values of an image. Its height and width are written to `shape`.
  bool Load(Entry* entry, std::vector<float>* values, Shape* shape) const;

  ImageBatchOptions options_;
  std::string blob_;
  Shape shape_;
  bool labelled_ = false;
  std::vector<Entry> entries_;
};

}  // namespace caffe
