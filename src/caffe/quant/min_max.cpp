#include "caffe/quant/min_max.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

DataType Master(DataType type) { return type == kDouble ? kDouble : kFloat; }

}  // namespace

MinMax::MinMax(DataType type, Device* device) : apart_(!device->host_accessible()) {
  parts_ = MakeBlob(Master(type), device, {kPartNumbers}, "partial ranges");
  const auto program = ProgramBuilder(device, "min_max").Types(type).Body("quant/min_max").Build();
  chunks_ = program->CreateKernel(apart_ ? "min_max_apart" : "min_max_chunks");
  merge_ = program->CreateKernel("min_max_merge");
}

std::shared_ptr<BlobBase> MinMax::MakeRange(DataType type, Device* device) {
  auto range = MakeBlob(Master(type), device, {3}, "range");
  range->SetData({INFINITY, -INFINITY, 0});
  return range;
}

int64_t MinMax::FindParts(DevicePtr x, int64_t count, DevicePtr parts) {
  const int64_t chunk = std::max<int64_t>(64, (count + kMostChunks - 1) / kMostChunks);
  const int64_t chunks = (count + chunk - 1) / chunk;
  chunks_->Launch(chunks, {chunks, x, parts, count, chunk});
  return chunks;
}

void MinMax::Add(const BlobBase& blob, BlobBase* range) {
  if (blob.count() == 0) return;
  const int64_t chunks =
      FindParts(blob.device_data(), blob.count(), parts_->overwrite_device_data());
  merge_->Launch(1, {1, parts_->Data(), range->MutableData(), chunks});
}

}  // namespace caffe
