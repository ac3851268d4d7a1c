#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Lists of candidates of a detection layer, on the device: scores (keys), what they belong to
// (ids), and the number of candidates of each list (counts; both are integers). See
// kernels/box/lists.h.
class BoxLists {
 public:
  // Creates them, or moves them to another device: called in LayerSetUp.
  void Place(Device* device, const std::string& name);
  // `rows` rows of `runs` lists of at most `stride` candidates, a multiple of kBlock. For Reshape.
  void Reshape(int64_t rows, int64_t runs, int64_t stride);
  // For Forward: a kernel writes new lists.
  void Begin() { current_ = 0; }
  // Merges the sorted lists of each row to one, the first list of the row: its first `limit`
  // candidates, best first.
  void Merge(int64_t limit) { MergeFrom(*this, limit); }
  // The same for the lists of `from`, which has the same shape and stays as it is.
  void MergeFrom(BoxLists& from, int64_t limit);

  BlobBase& keys() { return *buffers_[current_].keys; }
  BlobBase& ids() { return *buffers_[current_].ids; }
  BlobBase& counts() { return *buffers_[current_].counts; }
  int64_t runs() const { return runs_; }
  int64_t stride() const { return stride_; }
  // The distance of the rows.
  int64_t row_stride() const { return runs_ * stride_; }

  // The number of candidates that a work item sorts or merges.
  static constexpr int64_t kBlock = 64;
  static int64_t Blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

 private:
  struct Buffer {
    std::shared_ptr<BlobBase> keys, ids, counts;
  };

  int64_t rows_ = 0, runs_ = 0, stride_ = 0;
  int current_ = 0;
  Buffer buffers_[2];
  std::unique_ptr<Kernel> merge_;
};

// Non-maximum suppression and its results: rows (image, label, score, x0, y0, x1, y1). An id is
// class * priors + prior. Boxes are [images, priors, box_classes, 4]; with one box class they
// belong to all classes.
class BoxSuppression {
 public:
  struct Setting {
    double threshold = 0.3;  // the largest overlap of two boxes that are kept
    double eta = 1;          // the factor of the threshold after each box
    double pixel = 0;        // 1 if corners are pixels
    int64_t lists = 1;       // of an image: the number of classes, or 1
    int64_t classes = 1, priors = 0, box_classes = 1;
    int64_t first_label = 0;  // of class 0
    int64_t limit = 0;        // of the candidates of a list
    int64_t keep = -1;        // of the rows of an image; negative: all
  };

  void Place(Device* device, const std::string& name);
  void Reshape(int64_t images, const Setting& setting);
  // Suppresses candidates of sorted lists, the first list of each row of `from`: one row for each
  // image and list. Then chooses the best `keep` of each image. The rows are ordered by image,
  // class and score.
  void Launch(BoxLists* from, const BlobBase& boxes);
  // The number of rows of the last Launch. Waits for the device.
  int64_t Count();
  // Writes them to `top`, which gets the shape [1, 1, rows, 7]. Without any there is one row for
  // each image: its index, then -1.
  void Write(const BlobBase& boxes, BlobBase* top);
  // The same if there are no candidates, without a Launch.
  void WriteNothing(BlobBase* top);
  // For one list of an image: writes regions [count, 5] (image, x0, y0, x1, y1) and, unless null,
  // scores [count, 1].
  void WriteRegions(const BlobBase& boxes, BlobBase* regions, BlobBase* scores);

 private:
  int64_t images_ = 0;
  Setting setting_;
  BoxLists kept_, best_;
  std::shared_ptr<BlobBase> shares_, offsets_;
  std::unique_ptr<Kernel> suppress_, count_, add_, rows_, no_rows_, regions_;
};

}  // namespace caffe
