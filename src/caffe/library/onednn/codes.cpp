#include "caffe/library/onednn/codes.hpp"

#include <omp.h>

#include <algorithm>

#include "caffe/library/native/row_steps.hpp"

namespace caffe::onednn {
namespace {

constexpr int64_t kBlock = 1 << 10;

// Calls work(begin, end) for ranges of `count` elements, which begin at multiples of `block`, with
// all threads if there are many elements.
template <class Work> void ForRanges(int64_t count, int64_t block, const Work& work) {
  constexpr int64_t kParallelCodes = 1 << 15;
#pragma omp parallel if (count >= kParallelCodes && !omp_in_parallel())
  {
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t blocks = (count + block - 1) / block;
    const int64_t begin = blocks * thread / threads * block;
    const int64_t end = std::min(count, blocks * (thread + 1) / threads * block);
    if (begin < end) work(begin, end);
  }
}

}  // namespace

// The code of a number in bfloat16, and whether it is exact.
std::pair<uint16_t, bool> Code(double value) {
  uint16_t code;
  double back;
  ConvertElements(kDouble, &value, kBfloat16, &code, 1);
  ConvertElements(kBfloat16, &code, kDouble, &back, 1);
  return {code, back == value};
}

void Codes::Clip(const void* x, void* y, int64_t pitch, uint16_t highest) const {
  auto* const clip = HostRowSteps().clip_bfloat16;
  const auto* from = static_cast<const uint16_t*>(x);
  auto* const codes = static_cast<uint16_t*>(y);
  if (pitch == 0) {
    return ForRanges(count, kBlock, [&](int64_t begin, int64_t end) {
      clip(codes + begin, static_cast<long>(end - begin), highest);
    });
  }
  ForRanges(count, row, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin / row; r < end / row; ++r) {
      std::copy_n(from + r * row, row, codes + r * pitch);
      clip(codes + r * pitch, static_cast<long>(row), highest);
    }
  });
}

void Codes::Copy(const void* from, void* to) const {
  ForRanges(count, kBlock, [&](int64_t begin, int64_t end) {
    std::copy_n(static_cast<const uint16_t*>(from) + begin, end - begin,
                static_cast<uint16_t*>(to) + begin);
  });
}

void CopyPadded(const Problem& problem, const void* x, void* y) {
  const Problem& p = problem;
  const int64_t channels = p.x_dims[1], height = p.x_dims[2], width = p.x_dims[3] * channels;
  const int64_t rows = p.padded_dims[2], row = p.padded_dims[3] * channels;
  const int64_t left = p.left[1] * channels;
  const auto* source = static_cast<const uint16_t*>(x);
  auto* const target = static_cast<uint16_t*>(y);
  for (int64_t r = 0; r < p.x_dims[0] * rows; ++r) {
    uint16_t* to = target + r * row;
    const int64_t h = r % rows - p.left[0];
    if (h < 0 || h >= height) {
      std::fill_n(to, row, uint16_t{0});
      continue;
    }
    std::fill_n(to, left, uint16_t{0});
    std::copy_n(source, width, to + left);
    std::fill_n(to + left + width, row - left - width, uint16_t{0});
    source += width;
  }
}

}  // namespace caffe::onednn
