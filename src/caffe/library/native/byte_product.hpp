#pragma once

#include <cstdint>
#include <vector>

#include "caffe/library/epilogue.hpp"
#include "caffe/library/native/byte_steps.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// The functions for products of bytes at the instruction level of the host kernels: with AMX or
// AVX512-VNNI if the processor has them.
const ByteSteps& HostByteSteps();
// All that this processor and the instruction level have, for tests.
std::vector<const ByteSteps*> AllByteSteps();
// Whether they are faster than products of codes that were widened first.
bool HasFastByteSteps();

// Weights [rows, k] of 8 bits, packed for products. Rows are divided into `groups` equal parts, each
// of which begins a block of channels.
class PackedBytes {
 public:
  PackedBytes(int64_t rows, int64_t k, int64_t groups);
  // The index in a row of the source of each product, in the order of the rows of activations.
  using Order = std::vector<int64_t>;
  void Pack(const uint8_t* codes, const Order& order, char* to) const;
  int64_t bytes() const { return groups_ * group_bytes_; }
  int64_t group_bytes() const { return group_bytes_; }
  // Bytes of a row of activations: k, rounded up.
  int64_t depth() const { return depth_; }

 private:
  int64_t rows_, k_, groups_, depth_, group_bytes_;
};

// Weights [channels, taps] of a depthwise convolution.
class PackedWindows {
 public:
  PackedWindows(int64_t channels, int64_t taps);
  void Pack(const uint8_t* codes, char* to) const;
  int64_t bytes() const;
  // Taps, rounded up.
  int64_t tap_stride() const { return tap_stride_; }

 private:
  int64_t channels_, taps_, tap_stride_;
};

// The requantization of `channels` channels from `channel` on. `residual` may be null.
ByteOutput MakeByteOutput(const Epilogue& epilogue, const QuantArguments& arguments,
                          int64_t channel, int64_t channels);

}  // namespace caffe
