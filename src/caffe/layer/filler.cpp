#include "caffe/layer/filler.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"

namespace caffe {
namespace {

using i32 = int32_t;
using u32 = uint32_t;
using u64 = uint64_t;
#define DEVICE_FN inline
#include "../../../kernels/math/random.h"
#undef DEVICE_FN

// Elements are generated and converted in pieces that fit into the cache.
constexpr int64_t kPiece = 4096;
// Counters from this one on select the weights that `sparse` keeps.
constexpr u64 kSparseCounters = u64{1} << 62;

// A number in [0, 1) from 53 random bits.
double Unit(u32 high, u32 low) {
  return static_cast<double>(((static_cast<u64>(high) << 32) | low) >> 11) * 0x1p-53;
}

double Uniform(u64 seed, u64 element) {
  const Random4 random = philox(element, seed);
  return Unit(random.v0, random.v1);
}

// Box and Muller's transform: a standard normal number from two uniform ones.
double Normal(u64 seed, u64 element) {
  const Random4 random = philox(element, seed);
  const double radius = std::sqrt(-2 * std::log(1 - Unit(random.v0, random.v1)));
  return radius * std::cos(2 * std::numbers::pi * Unit(random.v2, random.v3));
}

// Sets every element to value(its index).
template <class Value> void FillWith(BlobBase* blob, const Value& value) {
  const int64_t count = blob->count();
  char* target = static_cast<char*>(blob->mutable_host_data());
  const DataType type = blob->type();
  const int64_t element_bytes = static_cast<int64_t>(type.bytes());
#pragma omp parallel for schedule(static) if (count > 4 * kPiece)
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    double piece[kPiece];
    const int64_t size = std::min(kPiece, count - begin);
    for (int64_t i = 0; i < size; ++i) piece[i] = value(begin + i);
    ConvertElements(kDouble, piece, type, target + begin * element_bytes, size);
  }
}

// The divisor n of the variance in xavier and msra.
double FanOf(const FillerParameter& parameter, const BlobBase& blob) {
  const double count = static_cast<double>(blob.count());
  const double fan_in = blob.num_axes() > 0 ? count / blob.shape(0) : count;
  const double fan_out = blob.num_axes() > 1 ? count / blob.shape(1) : count;
  if (parameter.variance_norm() == FillerParameter::AVERAGE) return (fan_in + fan_out) / 2;
  return parameter.variance_norm() == FillerParameter::FAN_OUT ? fan_out : fan_in;
}

void FillUnitBall(uint64_t seed, BlobBase* blob) {
  const int64_t rows = blob->num_axes() > 0 ? blob->shape(0) : 1;
  const int64_t columns = blob->count() / rows;
  std::vector<double> values(blob->count());
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      sum += values[i] = Uniform(seed, i);
    }
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) values[i] /= sum;
  }
  blob->SetData(values);
}

void FillBilinear(BlobBase* blob) {
  CAFFE_CHECK(blob->num_axes() == 4 && blob->shape(2) == blob->shape(3),
              "the bilinear filler needs 4 axes and a square kernel, but the blob has shape ",
              blob->shape_string());
  const int64_t side = blob->shape(3);
  const double factor = std::ceil(side / 2.0);
  const double center = (side - 1) / (2 * factor);
  const auto weight = [&](int64_t at) { return 1 - std::abs(at / factor - center); };
  FillWith(blob, [&](int64_t i) { return weight(i % side) * weight(i / side % side); });
}

}  // namespace

void Fill(const FillerParameter& parameter, uint64_t seed, BlobBase* blob) {
  const std::string& type = parameter.type();
  CAFFE_CHECK(blob->type().is_float(), "a filler cannot fill blob ", blob->name(), " of type ",
              blob->type().name());
  CAFFE_CHECK(parameter.sparse() < 0 || type == "gaussian", "filler ", type,
              ": sparse is only for gaussian");
  if (blob->count() == 0) return;
  if (type == "constant") {
    const double value = parameter.value();
    FillWith(blob, [=](int64_t) { return value; });
  } else if (type == "uniform") {
    const double low = parameter.min(), high = parameter.max();
    CAFFE_CHECK(low <= high, "filler uniform: min ", low, " is above max ", high);
    FillWith(blob, [=](int64_t i) { return low + (high - low) * Uniform(seed, i); });
  } else if (type == "gaussian") {
    const double mean = parameter.mean(), deviation = parameter.std();
    CAFFE_CHECK(deviation >= 0, "filler gaussian: std ", deviation, " is negative");
    const double kept = parameter.sparse() < 0 || blob->num_axes() == 0
                            ? 1
                            : static_cast<double>(parameter.sparse()) / blob->shape(0);
    FillWith(blob, [=](int64_t i) {
      if (kept < 1 && Uniform(seed, kSparseCounters + i) >= kept) return 0.0;
      return mean + deviation * Normal(seed, i);
    });
  } else if (type == "positive_unitball") {
    FillUnitBall(seed, blob);
  } else if (type == "xavier") {
    const double bound = std::sqrt(3 / FanOf(parameter, *blob));
    FillWith(blob, [=](int64_t i) { return bound * (2 * Uniform(seed, i) - 1); });
  } else if (type == "msra") {
    const double deviation = std::sqrt(2 / FanOf(parameter, *blob));
    FillWith(blob, [=](int64_t i) { return deviation * Normal(seed, i); });
  } else if (type == "bilinear") {
    FillBilinear(blob);
  } else {
    CAFFE_THROW("unknown filler '", type, "'; the fillers are bilinear, constant, gaussian, msra, ",
                "positive_unitball, uniform, xavier");
  }
}

}  // namespace caffe
