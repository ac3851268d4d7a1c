// Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/row_steps.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace caffe {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
typedef float Vector __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef unsigned Words __attribute__((vector_size(kWidth * 4)));
typedef unsigned short Codes __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));

// Rows of weights at a time: as many streams of memory as processors prefetch.
constexpr int kRows = 4;

struct Float {
  typedef float Element;
  static Vector Load(const float* p) { return *reinterpret_cast<const Vector*>(p); }
};

struct Bfloat16 {
  typedef unsigned short Element;
  // GCC 12 widens halves of a generic vector one by one, in five instructions.
  static Vector Load(const unsigned short* p) {
#if defined(__AVX512F__)
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const Words words = (Words)_mm512_maskz_cvtepu16_epi32(0xffff, codes);
#elif defined(__AVX2__)
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const Words words = (Words)_mm256_cvtepu16_epi32(codes);
#else
    const Words words = __builtin_convertvector(*reinterpret_cast<const Codes*>(p), Words);
#endif
    return (Vector)(words << 16);
  }
};

#if defined(__AVX2__) && defined(__F16C__)
struct Half {
  typedef unsigned short Element;
  static Vector Load(const unsigned short* p) {
#if defined(__AVX512F__)
    return (Vector)_mm512_maskz_cvtph_ps(0xffff,
                                         _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#else
    return (Vector)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#endif
  }
};
#endif

float Sum(const Vector& lanes) {
  typedef float Four __attribute__((vector_size(16)));
  Four parts[kWidth / 4];
  __builtin_memcpy(parts, &lanes, sizeof(lanes));
  for (int i = 1; i < kWidth / 4; ++i) parts[0] += parts[i];
  return (parts[0][0] + parts[0][1]) + (parts[0][2] + parts[0][3]);
}

// M rows of x, R rows of weights, beginning at row j. The order of a sum depends on k alone.
template <class T, int M, int R> void Block(const RowProducts& a, long i, long j) {
  typedef typename T::Element Element;
  const Element* w = static_cast<const Element*>(a.w) + j * a.w_stride;
  const float* x = a.x + i * a.x_stride;
  Vector sums[M][R] = {};
  long p = 0;
  for (; p + kWidth <= a.k; p += kWidth) {
    Vector values[M];
    for (int m = 0; m < M; ++m) values[m] = Float::Load(x + m * a.x_stride + p);
    for (int r = 0; r < R; ++r) {
      const Vector weights = T::Load(w + r * a.w_stride + p);
      for (int m = 0; m < M; ++m) sums[m][r] += values[m] * weights;
    }
  }
  if (p < a.k) {
    const long left = a.k - p;
    Vector values[M] = {};
    for (int m = 0; m < M; ++m) {
      float padded[kWidth] = {};
      for (long q = 0; q < left; ++q) padded[q] = x[m * a.x_stride + p + q];
      values[m] = Float::Load(padded);
    }
    for (int r = 0; r < R; ++r) {
      Element padded[kWidth] = {};
      for (long q = 0; q < left; ++q) padded[q] = w[r * a.w_stride + p + q];
      const Vector weights = T::Load(padded);
      for (int m = 0; m < M; ++m) sums[m][r] += values[m] * weights;
    }
  }
  for (int m = 0; m < M; ++m) {
    for (int r = 0; r < R; ++r) {
      a.y[(i + m) * a.y_stride + j + r] = Sum(sums[m][r]);
    }
  }
}

template <class T, int R> void AllRowsOfX(const RowProducts& a, long j) {
  long i = 0;
  for (; i + 4 <= a.m; i += 4) Block<T, 4, R>(a, i, j);
  if (a.m - i == 3) Block<T, 3, R>(a, i, j);
  if (a.m - i == 2) Block<T, 2, R>(a, i, j);
  if (a.m - i == 1) Block<T, 1, R>(a, i, j);
}

template <class T> void Dots(const RowProducts& a) {
  long j = a.begin;
  for (; j + kRows <= a.end; j += kRows) AllRowsOfX<T, kRows>(a, j);
  for (; j < a.end; ++j) AllRowsOfX<T, 1>(a, j);
}

void ClipBfloat16(unsigned short* values, long count, unsigned short high) {
  // As numbers without sign: 0 to 0x7f80 are not negative, 0x8001 to 0xff80 negative, in order.
#pragma GCC ivdep
  for (long i = 0; i < count; ++i) {
    unsigned short v = values[i];
    v = static_cast<unsigned short>(v - 0x8001) <= 0xff80 - 0x8001 ? 0 : v;
    v = v <= 0x7f80 && v > high ? high : v;
    values[i] = v;
  }
}

template <class T, int planes> void InterleavePlanes(const T* x, T* y, long size, long count) {
#pragma GCC ivdep
  for (long p = 0; p < count; ++p) {
    for (int c = 0; c < planes; ++c) y[p * planes + c] = x[c * size + p];
  }
}

template <class T>
void Interleave(const void* x, void* y, int planes, long size, long begin, long end) {
  const T* const from = static_cast<const T*>(x) + begin;
  T* const to = static_cast<T*>(y) + begin * planes;
  if (planes == 1) return InterleavePlanes<T, 1>(from, to, size, end - begin);
  if (planes == 2) return InterleavePlanes<T, 2>(from, to, size, end - begin);
  if (planes == 3) return InterleavePlanes<T, 3>(from, to, size, end - begin);
  InterleavePlanes<T, 4>(from, to, size, end - begin);
}

#if defined(__AVX2__) && defined(__F16C__)
constexpr auto kHalf = &Dots<Half>;
#else
constexpr void (*kHalf)(const RowProducts&) = nullptr;
#endif

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const RowSteps CAFFE_JOIN(row_steps_, CAFFE_HOST_LEVEL);
constinit const RowSteps CAFFE_JOIN(row_steps_, CAFFE_HOST_LEVEL){
    &Dots<Float>,         kHalf, &Dots<Bfloat16>, &ClipBfloat16, &Interleave<unsigned short>,
    &Interleave<unsigned>};

}  // namespace caffe
