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
// Those for sums of `depth` products: beyond kNarrowDepth the generic ones.
const ByteSteps& StepsForDepth(int64_t depth);
// Whether there are instructions for them, so that products of 8 bits are faster than gemmlowp's.
bool HasFastByteSteps();
// Whether tiles read rows of `depth` codes that follow each other, so that no copy is needed.
bool ReadsRowsOf(const ByteSteps& steps, int64_t depth);

// CodeTile::used for k products.
int64_t UsedDepth(const ByteSteps& steps, int64_t k);

// Weights [rows, k], packed for products. Rows are divided into `groups` equal parts, each
// of which begins a block of channels.
class PackedBytes {
 public:
  PackedBytes(int64_t rows, int64_t k, int64_t groups, CodeForm form = CodeForm::kBytes);
  // The index in a row of the source of each product, in the order of the rows of activations.
  // Products of kNone have the weight 0.
  using Order = std::vector<int64_t>;
  static constexpr int64_t kNone = -1;
  // `codes` are u8, or u16 for codes of 16 bits, in rows of the indices that are not kNone.
  void Pack(const void* codes, const Order& order, char* to) const;
  int64_t bytes() const { return groups_ * group_bytes_; }
  int64_t group_bytes() const { return group_bytes_; }
  // Elements of a row, or of one of its planes: k, rounded up.
  int64_t depth() const { return depth_; }
  // Bytes of a row of activations, and of one of weights.
  int64_t row_bytes() const { return depth_ * weight_bytes(); }
  int64_t weight_row_bytes() const { return depth_ * weight_bytes() + header_ / kByteChannels; }

 private:
  void PackWords(const uint16_t* codes, const Order& order, char* to) const;
  void PackParts(const uint16_t* codes, const Order& order, char* to) const;
  int64_t weight_bytes() const {
    return form_ == CodeForm::kBytes ? 1 : form_ == CodeForm::kWordParts ? 3 : 2;
  }

  int64_t rows_, k_, groups_;
  CodeForm form_;
  int64_t depth_, header_, group_bytes_;  // header: bytes before a block of channels
};

// Weights [channels, taps] of a depthwise convolution.
class PackedWindows {
 public:
  PackedWindows(int64_t channels, int64_t taps);
  void Pack(const uint8_t* codes, char* to) const;
  // For windows of 16 bits.
  void Pack(const uint16_t* codes, char* to) const;
  int64_t bytes() const;
  int64_t word_bytes() const { return 2 * channels_ * tap_stride_; }
  // Taps, rounded up.
  int64_t tap_stride() const { return tap_stride_; }

 private:
  int64_t channels_, taps_, tap_stride_;
};

// The requantization of `channels` channels from `channel` on, to codes of a type; float: the real
// values of the sums.
ByteOutput MakeByteOutput(const Epilogue& epilogue, const QuantArguments& arguments,
                          int64_t channel, int64_t channels, DataType type = kQuant8);

}  // namespace caffe
