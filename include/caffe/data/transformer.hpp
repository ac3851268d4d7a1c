#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

class Datum;
class TransformationParameter;

// What transform_param says about a record:
//   out(c, h, w) = (in(c, h + h_off, w + w_off) - mean) * scale
// crop_size cuts a square out: at random while training, from the centre else (rounded down).
// mirror flips left and right at random, in testing too (as BVLC does). The mean is that of the
// pixel before the flip; a mean image has the size of the record, not of the crop. Random choices
// depend on (seed, record number) only. Records hold bytes or floats; encoded images (JPEG, PNG)
// become bytes first: of 3 channels with force_color, of 1 with force_gray, else as they are stored.
class Transformer {
 public:
  // Loads mean_file. Throws if parameters contradict each other.
  Transformer(const TransformationParameter& parameter, bool training, uint64_t seed);

  // Turns an encoded record into one of pixels and leaves others as they are. Throws if it is
  // damaged. May be called by several threads.
  void Decode(Datum* datum) const;
  // channels, height, width of the record, which is not encoded, after the crop. Throws if it does
  // not fit the parameters, or if its bytes do not fit its own shape.
  Shape OutputShape(const Datum& datum) const;
  // Writes OutputShape(datum) elements. May be called by several threads.
  void Transform(const Datum& datum, uint64_t record, float* target) const;

 private:
  void LoadMean(const std::string& path);

  float scale_;
  std::optional<bool> color_;  // of encoded images
  bool mirror_;
  int crop_;
  bool training_;
  uint64_t seed_;
  std::vector<float> mean_values_;
  Shape mean_shape_;  // channels, height, width; empty without a mean file
  std::vector<float> mean_;
};

}  // namespace caffe
