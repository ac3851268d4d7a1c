#pragma once

#include <memory>

#include "caffe/memory/blob.hpp"
#include "caffe/quant/min_max.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

// Quantizes and dequantizes a blob of a float kind, so that it holds the real numbers of codes. The
// range lies on the device: nothing waits. Formulas: kernels/quant/pseudo.h.
class PseudoQuantizer {
 public:
  // The share of the distance to a batch's smallest and largest value by which Observe moves the
  // range: an exponential moving average (Jacob et al. 2018, "Quantization and Training of Neural
  // Networks for Efficient Integer-Arithmetic-Only Inference", section 3.1).
  static constexpr double kRate = 0.01;

  // `target` is quant8 or quant16. If the range is not known, the first call of Observe sets it.
  PseudoQuantizer(DataType type, DataType target, const Range& range, Device* device);
  // Moves the range.
  void Observe(const BlobBase& blob);
  void SetRange(const Range& range);
  bool has_range() const { return range_is_known_; }
  bool moved() const { return moved_; }
  // Changes the blob's data; there must be a range. Infinities become the ends of the range.
  void Quantize(BlobBase* blob);
  // Changes the blob's diff, which is the gradient of the quantized data of the last Quantize: it
  // is 0 where the code was clamped (straight-through estimator; Bengio et al. 2013).
  void Backward(BlobBase* blob);
  // Waits for the device.
  Range Read() const;

 private:
  // The range towards that of the batch, if there is one, and the grid of the range.
  void MoveRange();

  DataType type_;
  MinMax min_max_;
  double codes_;
  bool range_is_known_ = false, moved_ = false, has_grid_ = false;
  std::shared_ptr<BlobBase> seen_;          // of a batch, as in kernels/quant/min_max.h
  std::shared_ptr<BlobBase> range_, grid_;  // as in kernels/quant/pseudo.h
  std::shared_ptr<BlobBase> inside_;        // of the last Quantize: 1 or 0 for each element
  std::unique_ptr<Kernel> move_, quantize_, backward_;
};

}  // namespace caffe
