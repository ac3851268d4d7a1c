#include "caffe/data/transformer.hpp"

#include <algorithm>
#include <climits>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/data/image.hpp"
#include "caffe/io/proto_io.hpp"

namespace caffe {
namespace {

// The part of a record that is taken, and whether it is mirrored.
struct Window {
  int64_t channels, height, width;  // of the record
  int64_t size_h, size_w, offset_h, offset_w;
  bool mirror;
};

// out = (in(i) - mean(c, i)) * scale, where i is the index in the record.
template <class In, class Mean>
void Cut(const Window& window, float scale, const In& in, const Mean& mean, float* target) {
  for (int64_t c = 0; c < window.channels; ++c) {
    for (int64_t h = 0; h < window.size_h; ++h) {
      const int64_t row =
          (c * window.height + h + window.offset_h) * window.width + window.offset_w;
      if (window.mirror) {
        for (int64_t w = 0; w < window.size_w; ++w) {
          const int64_t index = row + window.size_w - 1 - w;
          target[w] = (in(index)-mean(c, index)) * scale;
        }
      } else {
        for (int64_t w = 0; w < window.size_w; ++w) {
          target[w] = (in(row + w) - mean(c, row + w)) * scale;
        }
      }
      target += window.size_w;
    }
  }
}

}  // namespace

Transformer::Transformer(const TransformationParameter& parameter, bool training, uint64_t seed)
    : scale_(parameter.scale()),
      mirror_(parameter.mirror()),
      crop_h_(parameter.has_crop_h() ? parameter.crop_h() : parameter.crop_size()),
      crop_w_(parameter.has_crop_w() ? parameter.crop_w() : parameter.crop_size()),
      training_(training),
      seed_(seed),
      mean_values_(parameter.mean_value().begin(), parameter.mean_value().end()) {
  CAFFE_CHECK(crop_h_ <= INT_MAX && crop_w_ <= INT_MAX, "crop_size ", std::max(crop_h_, crop_w_),
              " is too large");
  CAFFE_CHECK(!(parameter.has_crop_h() || parameter.has_crop_w()) || parameter.crop_size() == 0,
              "give either crop_size, or crop_h and crop_w");
  CAFFE_CHECK((crop_h_ == 0) == (crop_w_ == 0), "give crop_h and crop_w together");
  const char* const unsupported = parameter.resize_param_size() > 0 ? "resize_param"
                                  : parameter.has_noise_param()     ? "noise_param"
                                  : parameter.has_distort_param()   ? "distort_param"
                                  : parameter.has_expand_param()    ? "expand_param"
                                  : parameter.has_emit_constraint() ? "emit_constraint"
                                                                    : nullptr;
  CAFFE_CHECK(!unsupported, unsupported ? unsupported : "",
              " is not supported; resize and distort ",
              "the images before they are written to the database");
  CAFFE_CHECK(!parameter.has_mean_file() || mean_values_.empty(),
              "give either mean_file or mean_value, not both");
  CAFFE_CHECK(!parameter.force_color() || !parameter.force_gray(),
              "give either force_color or force_gray, not both");
  if (parameter.force_color() || parameter.force_gray()) color_ = parameter.force_color();
  if (parameter.has_mean_file()) LoadMean(parameter.mean_file());
}

void Transformer::LoadMean(const std::string& path) {
  log::Info(Concat("Loading mean file from: ", path));
  BlobProto proto;
  ReadBinaryProto(path, &proto);
  Shape shape(proto.shape().dim().begin(), proto.shape().dim().end());
  if (!proto.has_shape()) shape = {proto.num(), proto.channels(), proto.height(), proto.width()};
  try {
    ShapeCount(shape);
  } catch (const Error& error) {
    CAFFE_THROW("mean file ", path, ": ", error.what());
  }
  if (shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  CAFFE_CHECK(shape.size() == 3, "mean file ", path, ": shape ", ShapeString(shape),
              " is not the shape of one image");
  if (proto.double_data_size() > 0) {
    mean_.assign(proto.double_data().begin(), proto.double_data().end());
  } else {
    mean_.assign(proto.data().begin(), proto.data().end());
  }
  CAFFE_CHECK(ShapeCount(shape) == static_cast<int64_t>(mean_.size()), "mean file ", path, ": ",
              mean_.size(), " values for shape ", ShapeString(shape));
  mean_shape_ = shape;
}

void Transformer::Decode(Datum* datum) const {
  if (!datum->encoded()) {
    if (color_) {
      log::WarnOnce("force_color and force_gray only matter for encoded images; ignored");
    }
    return;
  }
  const int label = datum->label();
  try {
    SetPixels(DecodeImage(datum->data(), "the encoded image", color_), datum);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    CAFFE_THROW(error.what(), "; convert the images again, or without -encoded");
  }
  datum->set_label(label);
}

Shape Transformer::OutputShape(const Datum& datum) const {
  CAFFE_CHECK(!datum.encoded(), "the image is encoded and was not decoded");
  const Shape shape{datum.channels(), datum.height(), datum.width()};
  CAFFE_CHECK(shape[0] > 0 && shape[1] > 0 && shape[2] > 0,
              "the record has channels, height, width ", shape[0], ", ", shape[1], ", ", shape[2]);
  const bool bytes = !datum.data().empty();
  const int64_t values = bytes ? static_cast<int64_t>(datum.data().size())
                               : static_cast<int64_t>(datum.float_data_size());
  CAFFE_CHECK(values == ShapeCount(shape), "the record has ", values, bytes ? " bytes" : " floats",
              " for channels, height, width ", shape[0], ", ", shape[1], ", ", shape[2]);
  CAFFE_CHECK(mean_shape_.empty() || mean_shape_ == shape, "the record's shape is ",
              ShapeString(shape), ", but the mean file's is ", ShapeString(mean_shape_));
  const size_t means = mean_values_.size();
  CAFFE_CHECK(means <= 1 || static_cast<int64_t>(means) == shape[0], "there are ", means,
              " mean_value for ", shape[0], " channels; give one, or one for each channel");
  if (crop_h_ == 0) return shape;
  if (crop_h_ == crop_w_) {
    CAFFE_CHECK(crop_h_ <= shape[1] && crop_w_ <= shape[2], "crop_size ", crop_h_,
                " is larger than the image of ", shape[1], " x ", shape[2]);
  }
  CAFFE_CHECK(crop_h_ <= shape[1] && crop_w_ <= shape[2], "crop_h ", crop_h_, " and crop_w ",
              crop_w_, " are larger than the image of ", shape[1], " x ", shape[2]);
  return {shape[0], crop_h_, crop_w_};
}

void Transformer::Transform(const Datum& datum, uint64_t record, float* target) const {
  const Shape output = OutputShape(datum);
  Window window{datum.channels(), datum.height(), datum.width(), output[1], output[2], 0, 0, false};
  const int64_t rest_h = window.height - window.size_h, rest_w = window.width - window.size_w;
  window.offset_h = rest_h / 2;
  window.offset_w = rest_w / 2;
  if (mirror_ || (training_ && crop_h_ > 0)) {
    const auto random = Philox(record, seed_);
    window.mirror = mirror_ && random[0] % 2;
    if (training_ && crop_h_ > 0) {
      window.offset_h = random[1] % (rest_h + 1);
      window.offset_w = random[2] % (rest_w + 1);
    }
  }
  const auto cut = [&](const auto& in) {
    if (!mean_.empty()) {
      const float* mean = mean_.data();
      Cut(
          window, scale_, in, [mean](int64_t, int64_t index) { return mean[index]; }, target);
    } else if (!mean_values_.empty()) {
      const auto mean = [this](int64_t channel, int64_t) {
        return mean_values_[mean_values_.size() == 1 ? 0 : channel];
      };
      Cut(window, scale_, in, mean, target);
    } else {
      Cut(
          window, scale_, in, [](int64_t, int64_t) { return 0.f; }, target);
    }
  };
  if (!datum.data().empty()) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(datum.data().data());
    cut([bytes](int64_t index) { return static_cast<float>(bytes[index]); });
  } else {
    const float* floats = datum.float_data().data();
    cut([floats](int64_t index) { return floats[index]; });
  }
}

}  // namespace caffe
