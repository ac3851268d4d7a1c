#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "caffe/data/image_list.hpp"
#include "caffe/data/prefetcher.hpp"
#include "caffe/data/transformer.hpp"
#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Image files (JPEG, PNG) of a list in batches, endlessly. A thread prepares batches ahead; it
// decodes, resizes and transforms the images of a batch on several threads, whose number does not
// change the result.
// top 0: (batch_size, channels, height, width) after resizing and crop; channels are blue, green,
//   red, or gray. Images of a batch have one shape; batches may differ.
// top 1: (batch_size), the labels, float.
// image_data_param: source, a list of lines "path label", where the label follows the last blank;
//   batch_size (1); shuffle (another order in each epoch); rand_skip (up to this many images are
//   skipped at the start); new_height and new_width (both or none: bilinear with OpenCV's
//   arithmetic); is_color (true); root_folder, a prefix of each path. transform_param: see
//   Transformer. data_param: prefetch (4 batches). Random choices depend on the layer's seed and on
//   the number of images read so far.
// Types: float kinds.
class ImageData : public LayerBase, public HasRecords {
 public:
  using LayerBase::LayerBase;
  // Reads the list once: the position is kept when the layer moves to another device.
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  LayerFacts Facts() const override;
  int64_t records() const override { return static_cast<int64_t>(entries_.size()); }
  // Images skipped at the start, images delivered.
  std::vector<uint64_t> RunState() const override { return {skipped_, given_}; }
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  // Starts the thread after `skipped` images of the list and `given` ones of this layer.
  void StartAt(uint64_t skipped, uint64_t given);
  // The image that is read as number `record`, from 0.
  const ImageEntry& EntryOf(uint64_t record);
  void ReadImage(const ImageEntry& entry, Datum* datum) const;
  // Shape of a transformed image.
  Shape OutputShape(const ImageEntry& entry, const Datum& datum) const;
  void FillBatch(Prefetcher::Batch* batch);

  std::vector<ImageEntry> entries_;
  std::unique_ptr<Transformer> transformer_;
  Shape shape_;  // of top 0
  DataType type_;
  int threads_ = 1;
  uint64_t skipped_ = 0, given_ = 0;
  // Used by the thread:
  uint64_t records_ = 0;
  uint64_t epoch_ = ~uint64_t{0};
  std::vector<int64_t> order_;  // of epoch_, if shuffled
  std::vector<float> pixels_;
  // The last member, so that the thread ends before the objects that it uses.
  std::unique_ptr<Prefetcher> prefetcher_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ImageDataLayer final : public Layer<Dtype, MItype, MOtype, ImageData> {
  using Layer<Dtype, MItype, MOtype, ImageData>::Layer;
};

}  // namespace caffe
