#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "caffe/memory/blob.hpp"
#include "caffe/memory/data_stamp.hpp"

namespace caffe {

// Data computed from blobs: a copy of weights in another type, packed weights, factors of a layer.
// Refresh, called before a forward, computes them again if a source was written, has other memory
// or another shape, or if the key changed. The key covers everything that matters besides the
// sources' content, for example the descriptor of an operator.
class Derived {
 public:
  virtual ~Derived() = default;
  // Compares versions and the key; launches and copies nothing.
  bool Stale() const;
  // Builds the data if they are stale; returns true if so. After an exception they are still stale.
  bool Refresh();
  // Builds the data although they are not stale, because their memory was freed.
  void Rebuild() { Build(); }

 protected:
  Derived() = default;
  // The sources must outlive this. The list may be empty.
  explicit Derived(std::vector<const BlobBase*> sources) : sources_(std::move(sources)) {}
  void SetKey(std::string_view key);
  virtual void Build() = 0;

 private:
  std::vector<const BlobBase*> sources_;
  std::vector<DataStamp> made_of_;
  std::string key_;
  bool built_ = false;
};

// Derived values that a function computes: factors and statistics of a layer.
class DerivedBy final : public Derived {
 public:
  DerivedBy() = default;
  DerivedBy(std::vector<const BlobBase*> sources, std::function<void()> build)
      : Derived(std::move(sources)), build_(std::move(build)) {}
  using Derived::SetKey;

 private:
  void Build() override {
    if (build_) build_();
  }
  std::function<void()> build_;
};

}  // namespace caffe
