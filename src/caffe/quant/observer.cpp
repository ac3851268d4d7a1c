#include "caffe/quant/observer.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

constexpr int64_t kMostChunks = 1024;

}  // namespace

RangeObserver::RangeObserver(DataType type, Device* device)
    : type_(type),
      device_(device),
      parts_(MakeBlob(type == kDouble ? kDouble : kFloat, device, {3 * kMostChunks},
                      "partial ranges")),
      range_(MakeBlob(type == kDouble ? kDouble : kFloat, device, {3}, "range")) {
  range_->SetData({INFINITY, -INFINITY, 0});
  const auto program = ProgramBuilder(device, "min_max").Types(type).Body("quant/min_max").Build();
  chunks_ = program->CreateKernel("min_max_chunks");
  merge_ = program->CreateKernel("min_max_merge");
}

void RangeObserver::Observe(const BlobBase& blob) {
  CAFFE_CHECK(blob.type() == type_, "blob ", blob.name(), " holds ", blob.type().name(),
              ", its observer expects ", type_.name());
  const int64_t count = blob.count();
  if (count == 0) return;
  const int64_t chunk = std::max<int64_t>(64, (count + kMostChunks - 1) / kMostChunks);
  const int64_t chunks = (count + chunk - 1) / chunk;
  chunks_->Launch(chunks, {chunks, blob.Data(), parts_->MutableData(), count, chunk});
  merge_->Launch(1, {1, parts_->Data(), range_->MutableData(), chunks});
}

void RangeObserver::Merge(double low, double high) {
  merged_low_ = std::min(merged_low_, low);
  merged_high_ = std::max(merged_high_, high);
}

RangeObserver::Range RangeObserver::Read() const {
  const std::vector<double> seen = range_->DataAsDouble();
  Range range{.lost = seen[2] != 0, .low = merged_low_, .high = merged_high_};
  if (seen[0] <= seen[1]) {
    range.low = std::min(range.low, seen[0]);
    range.high = std::max(range.high, seen[1]);
  }
  range.observed = range.low <= range.high;
  return range;
}

QuantRange AffineRange(double low, double high, DataType type) {
  CAFFE_CHECK(std::isfinite(high - low) && low <= high, "[", low, ", ", high,
              "] is not a valid range for quantization");
  CAFFE_CHECK(type.is_quantized(), type.name(), " is not a quantized type");
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  if (low == high) return {1, 0, true};
  const double code_min = type.info().code_min, code_max = type.info().code_max;
  const double scale = std::max((high - low) / (code_max - code_min), 0x1p-126);
  const double zero = std::clamp(std::round(code_min - low / scale), code_min, code_max);
  return {scale, static_cast<int32_t>(zero), true};
}

}  // namespace caffe
