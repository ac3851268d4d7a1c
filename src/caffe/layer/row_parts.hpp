#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Rows that are ordered by group, in parts of 1, 4, 16, … rows of one group. Few sizes compute any
// number of rows.
class RowParts {
 public:
  // Rows [begin, begin + sizes()[size]) of one group.
  struct Part {
    int group = 0;
    size_t size = 0;
    int64_t begin = 0;
  };
  RowParts() = default;
  // The largest part has at most `most` rows. No sizes if there are no rows.
  RowParts(int groups, int64_t rows, int64_t most);
  int64_t rows() const { return rows_; }
  int groups() const { return groups_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  // In the order of the rows. `offsets` has the first row of each group; it is read on the host,
  // which waits unless the device is the CPU. Only the first call allocates. Throws if these are
  // not rows in order.
  const std::vector<Part>& Find(const BlobBase& offsets);

 private:
  int groups_ = 0;
  int64_t rows_ = 0, most_parts_ = 0;
  std::vector<int64_t> sizes_;
  std::vector<Part> parts_;  // after the first Find, it has room for those of any offsets
};

}  // namespace caffe
