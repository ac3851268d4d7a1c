#include "caffe/layer/row_parts.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"

namespace caffe {
namespace {

// The ratio of neighbouring sizes.
constexpr int64_t kRatio = 4;

}  // namespace

RowParts::RowParts(int groups, int64_t rows, int64_t most) : groups_(groups), rows_(rows) {
  for (int64_t size = 1; size <= std::min(rows, std::max<int64_t>(most, 1)); size *= kRatio) {
    sizes_.push_back(size);
  }
  if (sizes_.empty()) return;
  // A group has fewer than kRatio parts of each size but the largest.
  const auto smaller = static_cast<int64_t>(sizes_.size()) - 1;
  most_parts_ = groups * (kRatio - 1) * smaller + rows / sizes_.back();
}

const std::vector<RowParts::Part>& RowParts::Find(const BlobBase& offsets) {
  // On the CPU without a pointer of the host, which would be an allocation in memory of the net.
  const void* const data =
      offsets.device()->host_accessible() ? offsets.device_data().address() : offsets.host_data();
  const auto* const first = static_cast<const float*>(data);
  // -1 for NaN, too.
  const auto offset = [&](int group) {
    const float given = first[group];
    const bool valid = given >= 0 && given <= static_cast<float>(rows_);
    return valid ? static_cast<int64_t>(given) : int64_t{-1};
  };
  parts_.clear();
  parts_.reserve(most_parts_);  // a copy of this object has no room yet
  for (int group = 0; group < groups_; ++group) {
    int64_t row = offset(group);
    const bool last = group + 1 == groups_;
    const int64_t end = last ? rows_ : offset(group + 1);
    CAFFE_CHECK(row >= 0 && row <= end, "the rows of expert ", group, " are from ", first[group],
                " to ", last ? static_cast<float>(rows_) : first[group + 1], " in blob ",
                offsets.name(), ", but there are ", rows_);
    for (size_t size = sizes_.size(); size-- > 0;) {
      for (; end - row >= sizes_[size]; row += sizes_[size]) parts_.push_back({group, size, row});
    }
  }
  return parts_;
}

}  // namespace caffe
