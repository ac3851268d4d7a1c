#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/core/layout.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/operator.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// Pooling of planes, x [planes, height.input, width.input] to y [planes, height.output,
// width.output].
struct PoolDescriptor {
  // kDraw takes a random value of a window, with a probability proportional to it; kExpect is the
  // expectation of a draw.
  enum class Method { kMax, kAverage, kDraw, kExpect };
  struct Axis {
    int64_t input = 0, output = 0, kernel = 1, stride = 1, pad = 0;
    bool operator==(const Axis&) const = default;
  };

  Method method = Method::kMax;
  TypeTriple types = TypeTriple::Equal(kFloat);
  int64_t planes = 0;
  // With kNHWC, x and y are [planes / channels, height, width, channels]. It has passes of kMax and
  // kAverage, with mask and gradient only if `trains`; those of quantized types are for the CPU.
  Layout layout = Layout::kNCHW;
  bool trains = false;   // of kNHWC; else there is a gradient in any case
  int64_t channels = 1;  // of kNHWC; else 1
  // The elements from one position of a y in kNHWC to the next, if y is a part of the channels of a
  // larger array; 0: channels.
  int64_t y_pitch = 0;
  Axis height, width;
  // False if the window depends on the shape: programs then take its size as an argument.
  bool fixed_window = true;

  bool operator==(const PoolDescriptor&) const = default;
  bool quantized() const { return types.compute.is_quantized(); }
  bool has_private_layout() const { return layout != Layout::kNCHW; }
  int64_t y_row() const { return y_pitch ? y_pitch : channels; }
  // kMax and kDraw write, as float, the index h width + w in its plane that each output came from.
  bool has_mask() const {
    return method == Method::kDraw || (method == Method::kMax && (!has_private_layout() || trains));
  }
  // kExpect and quantized types have no gradient.
  bool has_gradient() const {
    return method != Method::kExpect && !quantized() && (!has_private_layout() || trains);
  }
  // The largest possible window in the padded image.
  int64_t largest_area() const;
  // "float max 2x3 planes 28x28 -> 14x14, 2x2/2x2".
  std::string name() const;
  // All fields.
  std::string key() const { return name(); }
};

// The operands of both passes; each pass uses those that it reads and writes.
struct PoolArguments {
  DevicePtr x, y, mask = {};
  DevicePtr y_diff = {}, x_diff = {};
  // kAverage of quantized types: multiplier and shift for windows of each area, 1 first, and the
  // zero points of x and y; no bias.
  const QuantArguments* quant = nullptr;
  // kDraw: the random numbers.
  DevicePtr counters = {};
  uint64_t seed = 0;
  DevicePtr workspace = {};
};

// Pooling prepared for one descriptor on one device.
class PoolOp : public Operator {
 public:
  // Writes y, and the mask if there is one.
  void Forward(const PoolArguments& arguments);
  // Computes x_diff from y_diff and the mask. Throws if there is no gradient.
  void Backward(const PoolArguments& arguments);
  const PoolDescriptor& descriptor() const { return descriptor_; }

 protected:
  explicit PoolOp(const PoolDescriptor& descriptor) : descriptor_(descriptor) {}
  virtual void DoForward(const PoolArguments& arguments) = 0;
  virtual void DoBackward(const PoolArguments& arguments) = 0;
  PoolDescriptor descriptor_;
};

}  // namespace caffe
