#include "caffe/library/layout_converter.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

constexpr int64_t kTile = 32;  // of kernels/blas/transpose_tiles.h
constexpr int64_t kSpan = 256;

int64_t Tiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace

LayoutConverter::LayoutConverter(Device* device, DataType type)
    : device_(device), element_bytes_(static_cast<int64_t>(type.bytes())) {
  CAFFE_CHECK(type.is_float(), "layouts: blobs of type ", type.name(), " have no other layout");
  const bool host = device->host_accessible();
  transpose_ = ProgramBuilder(device, "transpose")
                   .Types(type)
                   .Body(host ? "blas/transpose" : "blas/transpose_tiles")
                   .Build()
                   ->CreateKernel(host ? "transpose" : "transpose_tiles");
}

void LayoutConverter::Run(const Shape& shape, DevicePtr x, DevicePtr y, Layout to) {
  CAFFE_CHECK(shape.size() >= 2, "layouts: an array of shape ", ShapeString(shape),
              " has no channels");
  Run(shape[0], shape[1], ShapeCount(shape, 2), x, y, to);
}

void LayoutConverter::Run(int64_t batch, int64_t channels, int64_t positions, DevicePtr x,
                          DevicePtr y, Layout to) {
  const int64_t count = batch * channels * positions;
  if (count == 0) return;
  if (channels == 1 || positions == 1) return device_->Copy(y, x, count * element_bytes_);
  const bool to_nhwc = to == Layout::kNHWC;
  const int64_t rows = to_nhwc ? channels : positions, columns = to_nhwc ? positions : channels;
  if (device_->host_accessible()) {
    const int64_t items = batch * Tiles(rows, 16) * Tiles(columns, kSpan);
    const int64_t cost = std::min<int64_t>(rows, 16) * std::min(columns, kSpan);
    transpose_->Launch({items, cost}, {batch, rows, columns, kSpan, x, y});
    return;
  }
  const int64_t column_tiles = Tiles(columns, kTile);
  // The second axis of a group holds the batch, which has at most 65,535 groups.
  constexpr int64_t kMostGroups = 65535;
  for (int64_t first = 0; first < batch; first += kMostGroups) {
    const int64_t images = std::min(kMostGroups, batch - first);
    const int64_t offset = first * rows * columns * element_bytes_;
    transpose_->LaunchInGroups({{Tiles(rows, kTile) * column_tiles, images, 1}, {kTile, 8, 1}},
                               {rows, columns, column_tiles, x + offset, y + offset});
  }
}

}  // namespace caffe
