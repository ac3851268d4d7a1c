#include "caffe/layers/image_data_layer.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <numeric>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/data/image.hpp"
#include "caffe/data/parallel.hpp"
#include "caffe/io/file.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Counters that no image uses.
constexpr uint64_t kSkipCounter = ~uint64_t{0};
constexpr uint64_t kShuffleCounters = uint64_t{1} << 62;

void CheckParameter(const ImageDataParameter& parameter, uint32_t prefetch) {
  CAFFE_CHECK(!parameter.source().empty(), "image_data_param has no source");
  CAFFE_CHECK(parameter.batch_size() > 0 && parameter.batch_size() <= INT_MAX,
              "image_data_param: batch_size is ", parameter.batch_size(),
              "; it must be at least 1");
  CAFFE_CHECK((parameter.new_height() == 0) == (parameter.new_width() == 0),
              "image_data_param: new_height and new_width must be set at the same time; they are ",
              parameter.new_height(), " and ", parameter.new_width());
  if (parameter.new_height() > 0) {
    CheckImageSize("image_data_param: an image of new_height and new_width", parameter.new_height(),
                   parameter.new_width());
  }
  CAFFE_CHECK(prefetch > 0 && prefetch <= INT_MAX, "data_param: prefetch is ", prefetch,
              "; it must be at least 1");
}

}  // namespace

void ImageData::LayerSetUp(const BlobVec&, const BlobVec& top) {
  if (prefetcher_) return;
  type_ = top[0]->type();
  const ImageDataParameter& parameter = layer_param().image_data_param();
  try {
    CheckParameter(parameter, layer_param().data_param().prefetch());
    transformer_ = std::make_unique<Transformer>(layer_param().transform_param(), phase() == TRAIN,
                                                 context().seed);
    log::Info("Opening file " + parameter.source());
    entries_ = ReadImageList(parameter.source());
    log::Info(Concat("A total of ", entries_.size(), " images."));
    if (parameter.shuffle()) log::Info("Shuffling data");
    if (parameter.rand_skip() > 0) {
      const uint32_t skip = Philox(kSkipCounter, context().seed)[0] % parameter.rand_skip();
      log::Info(Concat("Skipping first ", skip, " data points."));
      CAFFE_CHECK(skip < entries_.size(), "Not enough points to skip: ", skip, " of ",
                  entries_.size());
      skipped_ = skip;
    }
    const ImageEntry& first = EntryOf(0);
    Datum datum;
    ReadImage(first, &datum);
    shape_ = OutputShape(first, datum);
  } catch (...) {
    RethrowIn(Where());
  }
  shape_.insert(shape_.begin(), parameter.batch_size());
  log::Info(
      Concat("output data size: ", shape_[0], ",", shape_[1], ",", shape_[2], ",", shape_[3]));
  threads_ = DataThreads();
  StartAt(skipped_, 0);
}

void ImageData::StartAt(uint64_t skipped, uint64_t given) {
  prefetcher_.reset();
  skipped_ = skipped;
  given_ = records_ = given;
  const auto depth = static_cast<int>(layer_param().data_param().prefetch());
  prefetcher_ = std::make_unique<Prefetcher>(depth, [this](Prefetcher::Batch* batch) {
    try {
      FillBatch(batch);
    } catch (...) {
      RethrowIn(Where());
    }
  });
}

void ImageData::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  prefetcher_.reset();  // its thread uses the seed
  LayerBase::SetRunState(seed, values);
  transformer_ =
      std::make_unique<Transformer>(layer_param().transform_param(), phase() == TRAIN, seed);
  epoch_ = ~uint64_t{0};
  StartAt(values[0], values[1]);
}

void ImageData::Reshape(const BlobVec&, const BlobVec& top) {
  top[0]->Reshape(shape_);
  top[1]->Reshape({shape_[0]});
}

const ImageEntry& ImageData::EntryOf(uint64_t record) {
  record += skipped_;
  const uint64_t count = entries_.size(), epoch = record / count, place = record % count;
  if (!layer_param().image_data_param().shuffle()) return entries_[place];
  if (epoch != epoch_) {
    // The order depends only on seed and epoch (Fisher and Yates).
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0);
    for (uint64_t i = count - 1; i > 0; --i) {
      const auto random = Philox(kShuffleCounters + epoch * count + i, context().seed);
      const uint64_t other = (uint64_t{random[0]} << 32 | random[1]) % (i + 1);
      std::swap(order_[i], order_[other]);
    }
    epoch_ = epoch;
  }
  return entries_[order_[place]];
}

void ImageData::ReadImage(const ImageEntry& entry, Datum* datum) const {
  const ImageDataParameter& parameter = layer_param().image_data_param();
  const std::string path = parameter.root_folder() + entry.path;
  try {
    Image image = DecodeImage(ReadFile(path), path, parameter.is_color());
    if (parameter.new_height() > 0) {
      image = ResizeBilinear(image, static_cast<int>(parameter.new_height()),
                             static_cast<int>(parameter.new_width()));
    }
    SetPixels(image, datum);
  } catch (...) {
    RethrowIn(Concat(parameter.source(), ", line ", entry.line));
  }
}

Shape ImageData::OutputShape(const ImageEntry& entry, const Datum& datum) const {
  try {
    return transformer_->OutputShape(datum);
  } catch (...) {
    RethrowIn(
        Concat(layer_param().image_data_param().source(), ", line ", entry.line, ": ", entry.path));
  }
}

void ImageData::FillBatch(Prefetcher::Batch* batch) {
  const int64_t images = layer_param().image_data_param().batch_size();
  std::vector<const ImageEntry*> entries;
  for (int64_t i = 0; i < images; ++i) entries.push_back(&EntryOf(records_ + i));
  Datum first;
  ReadImage(*entries[0], &first);
  const Shape shape = OutputShape(*entries[0], first);
  const int64_t item = ShapeCount(shape), count = images * item;
  batch->shape = shape;
  batch->shape.insert(batch->shape.begin(), images);
  batch->data.resize(count * type_.bytes());
  batch->labels.resize(images);
  float* pixels = reinterpret_cast<float*>(batch->data.data());
  if (type_ != kFloat) {
    pixels_.resize(count);
    pixels = pixels_.data();
  }
  RunInParallel(threads_, images, [&](int64_t i) {
    const ImageEntry& entry = *entries[i];
    Datum own;
    if (i > 0) ReadImage(entry, &own);
    const Datum& datum = i > 0 ? own : first;
    const Shape other = i > 0 ? OutputShape(entry, datum) : shape;
    CAFFE_CHECK(
        other == shape, layer_param().image_data_param().source(), ", line ", entry.line,
        ": the shape of ", entry.path, " is ", ShapeString(other),
        ", but that of the batch's first image is ", ShapeString(shape),
        "; all images of a batch must have one shape (set new_height and new_width, or crop_size)");
    transformer_->Transform(datum, records_ + i, pixels + i * item);
    batch->labels[i] = static_cast<float>(entry.label);
  });
  records_ += images;
  if (type_ != kFloat) ConvertElements(kFloat, pixels, type_, batch->data.data(), count);
}

void ImageData::Forward(const BlobVec&, const BlobVec& top) {
  const Prefetcher::Batch& batch = prefetcher_->Front();
  shape_ = batch.shape;
  top[0]->Reshape(shape_);
  std::memcpy(top[0]->mutable_host_data(), batch.data.data(), batch.data.size());
  std::memcpy(top[1]->mutable_host_data(), batch.labels.data(),
              batch.labels.size() * sizeof(float));
  prefetcher_->Pop();
  given_ += shape_[0];
}

LayerFacts ImageData::Facts() const {
  LayerFacts facts;
  facts.host = facts.shapes_from_data = true;
  return facts;
}

void RegisterImageDataLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.min_top = traits.max_top = 2;
  traits.data = true;
  traits.float_tops = {1};
  traits.backward_reads = Always({});
  traits.summary = "image files of a list, with their labels";
  registry.Add<ImageDataLayer>("ImageData", traits);
}

}  // namespace caffe
