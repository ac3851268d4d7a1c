#include "caffe/layer/filler.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
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

// What a filler fills.
struct Target {
  DataType type;
  const Shape& shape;
  int64_t count;
  int64_t axes() const { return static_cast<int64_t>(shape.size()); }
};

// Writes all elements, in the type of the target.
using Writer = std::function<void(void* data)>;

// Sets every element to value(its index).
template <class Value> Writer ByElement(const Target& target, const Value& value) {
  return [type = target.type, count = target.count, value](void* data) {
    const int64_t element_bytes = static_cast<int64_t>(type.bytes());
    char* const elements = static_cast<char*>(data);
#pragma omp parallel for schedule(static) if (count > 4 * kPiece)
    for (int64_t begin = 0; begin < count; begin += kPiece) {
      double piece[kPiece];
      const int64_t size = std::min(kPiece, count - begin);
      for (int64_t i = 0; i < size; ++i) piece[i] = value(begin + i);
      ConvertElements(kDouble, piece, type, elements + begin * element_bytes, size);
    }
  };
}

// The divisor n of the variance in xavier and msra.
double FanOf(const FillerParameter& parameter, const Target& target) {
  const double count = static_cast<double>(target.count);
  const double fan_in = target.axes() > 0 ? count / static_cast<double>(target.shape[0]) : count;
  const double fan_out = target.axes() > 1 ? count / static_cast<double>(target.shape[1]) : count;
  if (parameter.variance_norm() == FillerParameter::AVERAGE) return (fan_in + fan_out) / 2;
  return parameter.variance_norm() == FillerParameter::FAN_OUT ? fan_out : fan_in;
}

Writer UnitBall(const Target& target, uint64_t seed) {
  const int64_t rows = target.axes() > 0 ? target.shape[0] : 1;
  return [type = target.type, count = target.count, rows, seed](void* data) {
    const int64_t columns = count / rows;
    std::vector<double> values(count);
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        sum += values[i] = Uniform(seed, i);
      }
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) values[i] /= sum;
    }
    ConvertElements(kDouble, values.data(), type, data, count);
  };
}

Writer Bilinear(const Target& target) {
  CAFFE_CHECK(target.axes() == 4 && target.shape[2] == target.shape[3],
              "the bilinear filler needs 4 axes and a square kernel, but the blob has shape ",
              ShapeString(target.shape));
  const int64_t side = target.shape[3];
  const double factor = std::ceil(static_cast<double>(side) / 2.0);
  const double center = static_cast<double>(side - 1) / (2 * factor);
  return ByElement(target, [side, factor, center](int64_t i) {
    const auto weight = [&](int64_t at) {
      return 1 - std::abs(static_cast<double>(at) / factor - center);
    };
    return weight(i % side) * weight(i / side % side);
  });
}

Writer WriterOf(const FillerParameter& parameter, uint64_t seed, const BlobBase& blob) {
  const std::string& type = parameter.type();
  CAFFE_CHECK(blob.type().is_float(), "a filler cannot fill blob ", blob.name(), " of type ",
              blob.type().name());
  CAFFE_CHECK(parameter.sparse() < 0 || type == "gaussian", "filler ", type,
              ": sparse is only for gaussian");
  const Target target{blob.type(), blob.shape(), blob.count()};
  if (target.count == 0) return [](void*) {};
  if (type == "constant") {
    return ByElement(target, [value = double{parameter.value()}](int64_t) { return value; });
  }
  if (type == "uniform") {
    const double low = parameter.min(), high = parameter.max();
    CAFFE_CHECK(low <= high, "filler uniform: min ", low, " is above max ", high);
    return ByElement(target, [=](int64_t i) { return low + (high - low) * Uniform(seed, i); });
  }
  if (type == "gaussian") {
    const double mean = parameter.mean(), deviation = parameter.std();
    CAFFE_CHECK(deviation >= 0, "filler gaussian: std ", deviation, " is negative");
    const double kept = parameter.sparse() < 0 || target.axes() == 0
                            ? 1
                            : parameter.sparse() / static_cast<double>(target.shape[0]);
    return ByElement(target, [=](int64_t i) {
      if (kept < 1 && Uniform(seed, kSparseCounters + i) >= kept) return 0.0;
      return mean + deviation * Normal(seed, i);
    });
  }
  if (type == "positive_unitball") return UnitBall(target, seed);
  if (type == "xavier") {
    const double bound = std::sqrt(3 / FanOf(parameter, target));
    return ByElement(target, [=](int64_t i) { return bound * (2 * Uniform(seed, i) - 1); });
  }
  if (type == "msra") {
    const double deviation = std::sqrt(2 / FanOf(parameter, target));
    return ByElement(target, [=](int64_t i) { return deviation * Normal(seed, i); });
  }
  if (type == "bilinear") return Bilinear(target);
  CAFFE_THROW("unknown filler '", type, "'; the fillers are bilinear, constant, gaussian, msra, ",
              "positive_unitball, uniform, xavier");
}

class FillerSource final : public SyncedMemory::Source {
 public:
  explicit FillerSource(Writer write) : write_(std::move(write)) {}
  void Make(SyncedMemory* memory) override { write_(memory->mutable_host_data()); }

 private:
  const Writer write_;
};

}  // namespace

void Fill(const FillerParameter& parameter, uint64_t seed, BlobBase* blob) {
  const Writer write = WriterOf(parameter, seed, *blob);
  if (blob->count() > 0) write(blob->mutable_host_data());
}

void FillAtAccess(const FillerParameter& parameter, uint64_t seed, BlobBase* blob) {
  Writer write = WriterOf(parameter, seed, *blob);
  if (blob->count() == 0) return;
  blob->data_memory()->OwnSource(std::make_shared<FillerSource>(std::move(write)));
}

}  // namespace caffe
