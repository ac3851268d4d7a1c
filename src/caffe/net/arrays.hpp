#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "caffe/core/layout.hpp"

namespace caffe {

// An array that has memory in a pass: the data or the diff of a blob in a layout, or an array that
// belongs to a layer (LayerArrays).
struct Array {
  enum class Kind { kData, kDiff, kOwn };
  Kind kind = Kind::kData;
  int blob = -1;  // in Wiring::blobs; not for kOwn
  Layout layout = Layout::kNCHW;
  int node = -1;         // kOwn
  bool scratch = false;  // kOwn: in LayerArrays::scratch, not LayerArrays::kept
  size_t index = 0;      // kOwn: in that list

  // It is what users see of its blob.
  bool in_c_order() const { return kind != Kind::kOwn && layout == Layout::kNCHW; }
};

// The arrays of a plan. Steps name them by their index. It begins with the data of all blobs in C
// order: that of blob i is array i.
class Arrays {
 public:
  explicit Arrays(int blobs = 0) : one_of_(blobs) {
    for (int id = 0; id < blobs; ++id) {
      one_of_[id] = id;
      Data(id, Layout::kNCHW);
    }
  }

  int size() const { return static_cast<int>(all_.size()); }
  const Array& operator[](int array) const { return all_[array]; }
  std::vector<Array>::const_iterator begin() const { return all_.begin(); }
  std::vector<Array>::const_iterator end() const { return all_.end(); }

  // -1: there is none.
  int Find(Array::Kind kind, int blob, Layout layout) const {
    const auto found = ids_.find({kind, Owner(kind, blob, layout), layout});
    return found == ids_.end() ? -1 : found->second;
  }
  // The array of a blob; it is added if it is new.
  int Data(int blob, Layout layout) { return Get(Array::Kind::kData, blob, layout); }
  int Diff(int blob, Layout layout) { return Get(Array::Kind::kDiff, blob, layout); }
  int AddOwn(int node, bool scratch, size_t index) {
    all_.push_back({Array::Kind::kOwn, -1, Layout::kNCHW, node, scratch, index});
    return size() - 1;
  }
  // The blob is a copy of another one, without memory of its own: they are one array in each layout
  // but C order, in which users see both.
  void MakeCopy(int blob, int of) { one_of_[blob] = one_of_[of]; }

 private:
  // The blob of the array.
  int Owner(Array::Kind kind, int blob, Layout layout) const {
    return kind == Array::Kind::kData && layout != Layout::kNCHW ? one_of_[blob] : blob;
  }
  int Get(Array::Kind kind, int blob, Layout layout) {
    const int owner = Owner(kind, blob, layout);
    const auto [found, added] = ids_.try_emplace({kind, owner, layout}, size());
    if (added) all_.push_back({kind, owner, layout});
    return found->second;
  }

  std::vector<Array> all_;
  std::vector<int> one_of_;  // of each blob: the one whose arrays it uses, but in C order
  std::map<std::tuple<Array::Kind, int, Layout>, int> ids_;
};

}  // namespace caffe
