#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

class Datum;
class TransformationParameter;

// The transformation of transform_param:
//   out(c, h, w) = (in(c, h + h_off, w + w_off) - mean) * scale
// crop_size crops a square: at a random offset while training, else the centre (rounded down).
// mirror flips left and right at random, in testing too (as in BVLC). The mean is that of the pixel
// before the flip; a mean image has the size of the record, not of the crop. Random choices depend
// only on (seed, record number). Records hold bytes or floats; encoded images (JPEG, PNG) are
// decoded to bytes first: to 3 channels with force_color, to 1 with force_gray, else unchanged.
class Transformer {
 public:
  // Loads mean_file. Throws if parameters contradict each other.
  Transformer(const TransformationParameter& parameter, bool training, uint64_t seed);

  // The seed of later calls of Transform.
  void set_seed(uint64_t seed) { seed_ = seed; }

  // Decodes an encoded record to pixels; other records do not change. Throws if it is damaged.
  // Several threads may call it.
  void Decode(Datum* datum) const;
  // channels, height, width of the record, which must be decoded, after the crop. Throws if the
  // record does not fit the parameters or its own shape.
  Shape OutputShape(const Datum& datum) const;
  // Writes OutputShape(datum) elements. Several threads may call it.
  void Transform(const Datum& datum, uint64_t record, float* target) const;

 private:
  void LoadMean(const std::string& path);

  float scale_;
  std::optional<bool> color_;  // of encoded images
  bool mirror_;
  int64_t crop_h_, crop_w_;  // 0: no crop
  bool training_;
  uint64_t seed_;
  std::vector<float> mean_values_;
  Shape mean_shape_;  // channels, height, width; empty without a mean file
  std::vector<float> mean_;
};

}  // namespace caffe
