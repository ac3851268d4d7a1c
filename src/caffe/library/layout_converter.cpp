#include "caffe/library/layout_converter.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

constexpr int64_t kFew = 8;  // of kernels/blas/transpose_tiles.h
constexpr int64_t kSpan = 256;

int64_t Tiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace

LayoutConverter::LayoutConverter(Device* device, DataType type)
    : device_(device), element_bytes_(static_cast<int64_t>(type.bytes())) {
  ProgramBuilder builder(device, "transpose");
  builder.Types(type);
  if (!device->has_groups()) {
    transpose_ = builder.Body("blas/transpose").Build()->CreateKernel("transpose");
    return;
  }
  const auto program = builder.Body("blas/transpose_tiles").Build();
  transpose_ = builder.GroupKernel("transpose_tiles", program);
  few_ = builder.GroupKernel("transpose_few", program);
}

void LayoutConverter::Run(const Shape& shape, DevicePtr x, DevicePtr y, Layout to, int64_t pitch) {
  CAFFE_CHECK(shape.size() >= 2, "layouts: an array of shape ", ShapeString(shape),
              " has no channels");
  Run(shape[0], shape[1], ShapeCount(shape, 2), x, y, to, pitch);
}

void LayoutConverter::Run(int64_t batch, int64_t channels, int64_t positions, DevicePtr x,
                          DevicePtr y, Layout to, int64_t pitch) {
  const int64_t count = batch * channels * positions;
  if (count == 0) return;
  if (pitch == 0) pitch = channels;
  if (pitch == channels && (channels == 1 || positions == 1)) {
    return device_->Copy(y, x, count * element_bytes_);
  }
  const bool to_nhwc = to == Layout::kNHWC;
  const int64_t rows = to_nhwc ? channels : positions, columns = to_nhwc ? positions : channels;
  const int64_t x_row = to_nhwc ? positions : pitch, y_row = to_nhwc ? pitch : positions;
  if (!device_->has_groups()) {
    const int64_t items = batch * Tiles(rows, 16) * Tiles(columns, kSpan);
    const int64_t cost = std::min<int64_t>(rows, 16) * std::min(columns, kSpan);
    transpose_->Launch(LaunchRange::WithCost(items, cost),
                       {batch, rows, columns, x_row, y_row, kSpan, x, y});
    return;
  }
  const int64_t side = GroupSide(transpose_->group());
  const int64_t tile = side > 1 ? 2 * side : 1, depth = std::max<int64_t>(tile / 4, 1);
  const int64_t group = few_->group(), column_tiles = Tiles(columns, tile);
  // The second axis of a group holds the batch, which has at most 65,535 groups.
  constexpr int64_t kMostGroups = 65535;
  for (int64_t first = 0; first < batch; first += kMostGroups) {
    const int64_t images = std::min(kMostGroups, batch - first);
    const int64_t x_image = rows * x_row, y_image = columns * y_row;
    const DevicePtr from = x + first * x_image * element_bytes_;
    const DevicePtr to = y + first * y_image * element_bytes_;
    if (std::min(rows, columns) > kFew) {
      transpose_->LaunchInGroups({{Tiles(rows, tile) * column_tiles, images, 1}, {tile, depth, 1}},
                                 {rows, columns, x_row, y_row, column_tiles, from, to});
    } else if (rows < columns) {
      few_->LaunchInGroups({{Tiles(columns, group), images, 1}, {group, 1, 1}},
                           {columns, rows, 1, x_row, y_row, 1, x_image, y_image, from, to});
    } else {
      few_->LaunchInGroups({{Tiles(rows, group), images, 1}, {group, 1, 1}},
                           {rows, columns, x_row, 1, 1, y_row, x_image, y_image, from, to});
    }
  }
}

}  // namespace caffe
