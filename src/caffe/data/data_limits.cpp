#include "caffe/data/data_limits.hpp"

#include "caffe/core/environment_number.hpp"
#include "caffe/core/error.hpp"

namespace caffe {
namespace {

DataLimit Limit(const char* variable, const char* unit, int64_t usual, int64_t most) {
  return {NumberOfEnvironment(variable, 1, most, unit).value_or(usual), unit, variable};
}

}  // namespace

std::string DataLimit::ToString() const {
  return Concat("the limit is ", most, " ", unit, "; ", variable, " changes it");
}

const DataLimit& MostPixels() {
  // OpenCV reads up to 2^30 pixels.
  static const DataLimit limit = Limit("CAFFE_MAX_PIXELS", "pixels", 1 << 28, 1 << 30);
  return limit;
}

const DataLimit& MostScans() {
  static const DataLimit limit = Limit("CAFFE_MAX_SCANS", "scans", 100, INT32_MAX);
  return limit;
}

const DataLimit& MostUnpacked() {
  static const DataLimit limit = Limit("CAFFE_MAX_UNPACKED", "MiB", 4096, int64_t{1} << 40);
  return limit;
}

}  // namespace caffe
