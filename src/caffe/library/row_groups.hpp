#pragma once

#include <algorithm>
#include <cstdint>

namespace caffe {

// The tiles of `tile` rows that hold the rows of all items, if each of `groups` groups of items
// begins a tile: kernels/math/row_groups.h. Enough for every division of the items.
inline int64_t RowGroupTiles(int64_t items, int64_t item_rows, int64_t groups, int64_t tile) {
  const int64_t used = std::min(items, std::max<int64_t>(1, groups));  // that have items
  return (items * item_rows + used * (tile - 1)) / tile;
}

}  // namespace caffe
