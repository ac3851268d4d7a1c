#pragma once

#include <cstdint>

namespace caffe {

// Codes of 8 bits; element [i, j] is at i * stride + j, or at j * stride + i.
struct CodeMatrix {
  const uint8_t* codes;
  int64_t stride;
  bool by_columns;
  int zero;  // is subtracted from each code
};

// sums [m, n] = a [m, k] b [k, n] by gemmlowp, in the calling thread. The caller sees to it that
// sums fit 32 bits, and that no matrix has 2^31 elements or more.
void MultiplyCodes(int64_t m, int64_t n, int64_t k, const CodeMatrix& a, const CodeMatrix& b,
                   int32_t* sums);

}  // namespace caffe
