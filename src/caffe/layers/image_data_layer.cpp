#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/data/datum_source.hpp"
#include "caffe/data/image.hpp"
#include "caffe/data/image_list.hpp"
#include "caffe/io/file.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/source_layer.hpp"

namespace caffe {
namespace {

class ImageFiles final : public DatumSource {
 public:
  ImageFiles(const LayerParameter& parameter, bool training)
      : DatumSource(parameter.transform_param(), training),
        parameter_(parameter.image_data_param()) {
    log::Info("Opening file " + parameter_.source());
    entries_ = ReadImageList(parameter_.source());
    log::Info(Concat("A total of ", entries_.size(), " images."));
  }
  std::vector<int64_t> Groups() const override { return {static_cast<int64_t>(entries_.size())}; }

 private:
  void Fetch(int64_t index, Record* record) override {
    record->where = Concat(parameter_.source(), ", line ", entries_[index].line);
  }
  void Decode(Record* record) const override {
    const ImageEntry& entry = entries_[record->index];
    const std::string path = parameter_.root_folder() + entry.path;
    Image image = DecodeImage(ReadFile(path), path, parameter_.is_color());
    if (parameter_.new_height() > 0) {
      image = ResizeBilinear(image, static_cast<int>(parameter_.new_height()),
                             static_cast<int>(parameter_.new_width()));
    }
    SetPixels(image, &record->datum);
    record->datum.set_label(entry.label);
    record->where += ": " + entry.path;  // messages about the file name its path already
  }

  const ImageDataParameter parameter_;
  std::vector<ImageEntry> entries_;
};

}  // namespace

// Image files (JPEG, PNG) of a list in batches.
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
class ImageData : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings ReadSettings() const override {
    const ImageDataParameter& parameter = layer_param().image_data_param();
    CAFFE_CHECK(!parameter.source().empty(), "image_data_param has no source");
    CAFFE_CHECK(
        (parameter.new_height() == 0) == (parameter.new_width() == 0),
        "image_data_param: new_height and new_width must be set at the same time; they are ",
        parameter.new_height(), " and ", parameter.new_width());
    if (parameter.new_height() > 0) {
      CheckImageSize("image_data_param: an image of new_height and new_width",
                     parameter.new_height(), parameter.new_width());
    }
    Settings settings;
    settings.batch_size = parameter.batch_size();
    settings.prefetch = layer_param().data_param().prefetch();
    settings.shuffle = parameter.shuffle();
    settings.numbers = ItemOrder::Numbers::kByItem;
    settings.rand_skip = parameter.rand_skip();
    return settings;
  }
  std::unique_ptr<ItemSource> Open(const BlobVec&) override {
    return std::make_unique<ImageFiles>(layer_param(), phase() == TRAIN);
  }
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ImageDataLayer final : public Layer<Dtype, MItype, MOtype, ImageData> {
  using Layer<Dtype, MItype, MOtype, ImageData>::Layer;
};

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
