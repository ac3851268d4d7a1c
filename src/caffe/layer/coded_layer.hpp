#pragma once

#include <memory>

#include "caffe/layer/layer.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

// A layer that computes in quantized types with integers that it derives from its parameters.
class CodedLayer : public LayerBase {
 public:
  // The integers, computed on the host from parameters and from the ranges of bottom 0 and top 0.
  class Codes : public Derived {
   public:
    Codes() = default;
    // Call this before Refresh.
    void SetRanges(const QuantRange& x, const QuantRange& y);
    // 0 if there are none.
    int64_t bytes() const { return numbers_ ? numbers_->bytes() : 0; }

   protected:
    using Derived::Derived;

    QuantRange x_, y_;
    std::shared_ptr<BlobBase> numbers_;
  };

  using LayerBase::LayerBase;
  // For float kinds: uploads stale device copies of the parameters now, not in the forward.
  void PrepareParameters() override;
  void CountMemory(WorkMemory* memory) const override;

 protected:
  // For quantized types, in LayerSetUp: a member of the layer.
  void UseCodes(Codes* codes) { codes_in_use_ = codes; }

 private:
  Codes* codes_in_use_ = nullptr;
};

}  // namespace caffe
