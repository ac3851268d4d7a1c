#include "caffe/layer/filler.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/available_memory.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/layer/random_steps.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const RandomSteps random_steps_v2, random_steps_v3, random_steps_v4;
#else
extern const RandomSteps random_steps_neon;
#endif

namespace {

// Elements are generated and converted in pieces that fit into the cache.
constexpr int64_t kPiece = 4096;
// Numbers from this one on select the weights that `sparse` keeps.
constexpr uint64_t kSparseNumbers = uint64_t{1} << 62;

const RandomSteps& HostSteps() {
#if defined(__x86_64__)
  const InstructionLevel level = HostLevelNumber();
  return level == InstructionLevel::kV4   ? random_steps_v4
         : level == InstructionLevel::kV3 ? random_steps_v3
                                          : random_steps_v2;
#else
  return random_steps_neon;
#endif
}

// The array that a filler fills.
struct Target {
  DataType type;
  const Shape& shape;
  int64_t count;
  int64_t axes() const { return static_cast<int64_t>(shape.size()); }
};

// Writes all elements, in the type of the target.
using Writer = std::function<void(void* data)>;

// fill(first, size, values) computes `size` elements from `first` on.
template <class Fill> Writer ByPiece(const Target& target, const Fill& fill) {
  return [type = target.type, count = target.count, fill](void* data) {
    const int64_t element_bytes = static_cast<int64_t>(type.bytes());
    char* const elements = static_cast<char*>(data);
#pragma omp parallel for schedule(static) if (count > 4 * kPiece)
    for (int64_t begin = 0; begin < count; begin += kPiece) {
      double piece[kPiece];
      const int64_t size = std::min(kPiece, count - begin);
      fill(begin, size, piece);
      ConvertElements(kDouble, piece, type, elements + begin * element_bytes, size);
    }
  };
}

// Sets every element to value(its index).
template <class Value> Writer ByElement(const Target& target, const Value& value) {
  return ByPiece(target, [value](int64_t first, int64_t size, double* values) {
    for (int64_t i = 0; i < size; ++i) values[i] = value(first + i);
  });
}

// Sets every element to value(a uniform number in [0, 1)).
template <class Value> Writer Uniform(const Target& target, uint64_t seed, const Value& value) {
  return ByPiece(target, [=](int64_t first, int64_t size, double* values) {
    HostSteps().uniform(seed, first, size, values);
    for (int64_t i = 0; i < size; ++i) values[i] = value(values[i]);
  });
}

Writer Normal(const Target& target, uint64_t seed, double mean, double deviation) {
  return ByPiece(target, [=](int64_t first, int64_t size, double* values) {
    HostSteps().normal(seed, first, size, values);
    for (int64_t i = 0; i < size; ++i) values[i] = mean + deviation * values[i];
  });
}

// The share `kept` of the elements is normal, and the others are zero.
Writer SparseNormal(const Target& target, uint64_t seed, double mean, double deviation,
                    double kept) {
  return ByPiece(target, [=](int64_t first, int64_t size, double* values) {
    double chance[kPiece];
    HostSteps().uniform(seed, kSparseNumbers + first, size, chance);
    HostSteps().normal(seed, first, size, values);
    for (int64_t i = 0; i < size; ++i) {
      values[i] = chance[i] < kept ? mean + deviation * values[i] : 0;
    }
  });
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
    HostSteps().uniform(seed, 0, count, values.data());
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) sum += values[i];
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
    return Uniform(target, seed, [=](double u) { return low + (high - low) * u; });
  }
  if (type == "gaussian") {
    const double mean = parameter.mean(), deviation = parameter.std();
    CAFFE_CHECK(deviation >= 0, "filler gaussian: std ", deviation, " is negative");
    const double kept = parameter.sparse() < 0 || target.axes() == 0
                            ? 1
                            : parameter.sparse() / static_cast<double>(target.shape[0]);
    return kept < 1 ? SparseNormal(target, seed, mean, deviation, kept)
                    : Normal(target, seed, mean, deviation);
  }
  if (type == "positive_unitball") return UnitBall(target, seed);
  if (type == "xavier") {
    const double bound = std::sqrt(3 / FanOf(parameter, target));
    return Uniform(target, seed, [=](double u) { return bound * (2 * u - 1); });
  }
  if (type == "msra") {
    return Normal(target, seed, 0, std::sqrt(2 / FanOf(parameter, target)));
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
  if (blob->count() == 0) return;
  if (!blob->data_memory()->buffer()) {
    CheckAvailableMemory(*blob->device(), blob->bytes(), "blob " + blob->name());
  }
  write(blob->mutable_host_data());
}

void FillAtAccess(const FillerParameter& parameter, uint64_t seed, BlobBase* blob) {
  Writer write = WriterOf(parameter, seed, *blob);
  if (blob->count() == 0) return;
  blob->data_memory()->OwnSource(std::make_shared<FillerSource>(std::move(write)));
}

}  // namespace caffe
