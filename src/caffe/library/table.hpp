#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caffe {

class Device;

// The devices on which a library computes.
using Place = bool (*)(const Device& device);
bool OnHost(const Device& device);     // those whose memory the host reads
bool OnDevices(const Device& device);  // those that run kernels of work groups
bool OnCuda(const Device& device);
bool OnOpenCl(const Device& device);

// One row of a table: a library that makes operators for descriptors.
template <class D, class Op> struct Library {
  std::string name;
  Place place = nullptr;  // null: all devices
  // True if the library is available and supports the descriptor on this device, one of its place.
  std::function<bool(Device*, const D&)> supports;
  std::function<std::unique_ptr<Op>(Device*, const D&)> make;
  // False if later libraries are faster: they are tried first. Null: always true.
  std::function<bool(Device*, const D&)> prefers = nullptr;
  // Whether the library is faster with arrays in kNHWC, whatever the descriptor's layouts are.
  // Null: it knows kNCHW only, and is never asked whether it supports another layout.
  std::function<bool(Device*, const D&)> prefers_nhwc = nullptr;
  // Whether it knows outputs in kNHWC that are parts of larger arrays (`y_pitch`).
  bool knows_pitch = false;
  // Whether it knows groups of rows with weights of their own (`row_groups`); otherwise it is never
  // asked whether it supports them.
  bool knows_row_groups = false;
  // Whether it knows results that are sums of codes (`sums`), likewise.
  bool knows_sums = false;
  // Whether it is compared with other rows by measurement, for arrays in kNCHW and in kNHWC, and
  // computes forward passes only.
  bool compared = false, compared_nhwc = false, forward_only = false;
  // Whether a product of this library is compared with those of others on OpenCL.
  bool compared_opencl = false;
  // Whether it multiplies by matrix units through kernels of ours, in kNHWC.
  bool matrix_units = false;

  bool Supports(Device* device, const D& d) const {
    return (!place || place(*device)) && Knows(d) && supports(device, d);
  }

 private:
  bool Knows(const D& d) const {
    if constexpr (requires { d.row_groups; }) {
      if (d.row_groups > 0 && !knows_row_groups) return false;
    }
    if constexpr (requires { d.sums; }) {
      if (d.sums && !knows_sums) return false;
    }
    if constexpr (requires { d.has_private_layout(); }) {
      return (prefers_nhwc || !d.has_private_layout()) && (knows_pitch || d.y_pitch == 0);
    }
    return true;
  }
};

// The libraries of one operation, in order of preference.
template <class D, class Op> class Table {
 public:
  using Row = Library<D, Op>;
  explicit Table(std::vector<Row> rows) : rows_(std::move(rows)) {}

  // Adds a row before all others.
  void Add(Row row) { added_.insert(added_.begin(), std::move(row)); }
  // Removes the rows that Add added under this name.
  void Remove(const std::string& name) {
    std::erase_if(added_, [&](const Row& row) { return row.name == name; });
  }
  bool Has(const std::string& name) const {
    const auto named = [&](const Row& row) { return row.name == name; };
    return std::any_of(added_.begin(), added_.end(), named) ||
           std::any_of(rows_.begin(), rows_.end(), named);
  }

  // For a descriptor whose arrays may have any layout (`plain` in kNCHW, `nhwc` in kNHWC): whether
  // the first row that supports it, in order of preference, is faster in kNHWC. A row may support
  // kNHWC alone.
  bool PrefersNhwc(Device* device, const D& plain, const D& nhwc, const std::string& first) const {
    const std::vector<Row> rows = Candidates(device, plain, first);
    for (const Row& row : Candidates(device, nhwc, first)) {
      if (!row.prefers_nhwc(device, plain)) continue;
      if (rows.empty() || row.name == rows[0].name) return true;
      if (rows[0].name == first) return false;
      const bool preferred = !row.prefers || row.prefers(device, nhwc);
      return row.name == first || (preferred && Position(row.name) < Position(rows[0].name));
    }
    return false;
  }

  // The rows that support it, in order; the row named `first` comes first, if it supports it.
  std::vector<Row> Candidates(Device* device, const D& descriptor, const std::string& first) const {
    std::vector<Row> rows;
    for (const auto* all : {&added_, &rows_}) {
      for (const Row& row : *all) {
        if (row.Supports(device, descriptor)) rows.push_back(row);
      }
    }
    std::stable_partition(rows.begin(), rows.end(), [&](const Row& row) {
      return !row.prefers || row.prefers(device, descriptor);
    });
    std::stable_partition(rows.begin(), rows.end(),
                          [&](const Row& row) { return row.name == first; });
    return rows;
  }

 private:
  // The place of a row in the order of preference of the table.
  size_t Position(const std::string& name) const {
    size_t position = 0;
    for (const auto* all : {&added_, &rows_}) {
      for (const Row& row : *all) {
        if (row.name == name) return position;
        ++position;
      }
    }
    return position;
  }

  std::vector<Row> added_, rows_;
};

}  // namespace caffe
