#include "caffe/library/native/host_gemm.hpp"

#include "caffe/device/cpu/cpu_device.hpp"

namespace caffe {
namespace {

// Depth of a block: a panel of op(B), kDepth x 32 floats, fits the first cache.
constexpr int64_t kDepth = 256;
// Rows of op(A) that stay in the second cache while it loops over the panels of op(B).
constexpr int64_t kRows = 256;

template <class T> struct Product {
  int64_t m, n, k;
  T alpha, beta;
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row, b_column;
  T* c;
  int64_t ldc;
  T* panel;  // room for kDepth * 32 elements
};

// tile[R, V vectors] = a[R, k] b[k, …]. Always inlined, so that it is compiled for the caller's
// instruction set.
template <class T, int kBytes, int R, int V>
[[gnu::always_inline]] inline void Tile(int64_t k, const T* a, int64_t a_row, int64_t a_column,
                                        const T* b, int64_t b_row, T alpha, T beta, T* c,
                                        int64_t ldc, int64_t columns) {
  typedef T Vector __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  constexpr int kLanes = kBytes / sizeof(T);
  Vector sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[i][v] = Vector{};
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = *reinterpret_cast<const Vector*>(b + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T x = a[i * a_row];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[i][v] += row[v] * x;
    }
    a += a_column;
    b += b_row;
  }
  if (columns == V * kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Vector* target = reinterpret_cast<Vector*>(c + i * ldc + v * kLanes);
        *target = beta == 0 ? sum[i][v] * alpha : sum[i][v] * alpha + *target * beta;
      }
    }
    return;
  }
  for (int i = 0; i < R; ++i) {
    alignas(64) T values[V * kLanes];
    for (int v = 0; v < V; ++v) *reinterpret_cast<Vector*>(values + v * kLanes) = sum[i][v];
    for (int64_t j = 0; j < columns; ++j) {
      T* target = c + i * ldc + j;
      *target = beta == 0 ? values[j] * alpha : values[j] * alpha + *target * beta;
    }
  }
}

// Tile of `rows` <= R rows.
template <class T, int kBytes, int R, int V, class... A>
[[gnu::always_inline]] inline void TileOf(int64_t rows, const A&... arguments) {
  if constexpr (R > 1) {
    if (rows < R) {
      TileOf<T, kBytes, R - 1, V>(rows, arguments...);
      return;
    }
  }
  Tile<T, kBytes, R, V>(arguments...);
}

// All rows [0, m) of one panel of at most V vectors of columns, in tiles of nearly equal height:
// tiles of few rows do not hide the latency of a multiplication.
template <class T, int kBytes, int R, int V>
[[gnu::always_inline]] inline void Panel(int64_t m, int64_t k, const T* a, int64_t a_row,
                                         int64_t a_column, const T* b, int64_t b_row, T alpha,
                                         T beta, T* c, int64_t ldc, int64_t columns) {
  const int64_t tiles = (m + R - 1) / R;
  int64_t i = 0;
  for (int64_t tile = 1; tile <= tiles; ++tile) {
    const int64_t rows = m * tile / tiles - i;
    TileOf<T, kBytes, R, V>(rows, k, a + i * a_row, a_row, a_column, b, b_row, alpha, beta,
                            c + i * ldc, ldc, columns);
    i += rows;
  }
}

template <class T, int kBytes, int R>
[[gnu::always_inline]] inline void Multiply(const Product<T>& p) {
  constexpr int kLanes = kBytes / sizeof(T), kColumns = 2 * kLanes;
  for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    const int64_t k = p.k - k0 < kDepth ? p.k - k0 : kDepth;
    const T beta = k0 == 0 ? p.beta : T(1);
    for (int64_t i0 = 0; i0 < p.m; i0 += kRows) {
      const int64_t m = p.m - i0 < kRows ? p.m - i0 : kRows;
      const T* a = p.a + i0 * p.a_row + k0 * p.a_column;
      for (int64_t j = 0; j < p.n; j += kColumns) {
        const int64_t columns = p.n - j < kColumns ? p.n - j : kColumns;
        const int64_t width = columns > kLanes ? kColumns : kLanes;
        const T* b = p.b + k0 * p.b_row + j * p.b_column;
        int64_t b_row = p.b_row;
        // Whole rows of an untransposed B are read directly, unless op(A) has so many rows that a
        // compact copy is faster.
        if (p.b_column != 1 || columns < width || m > 96) {
          if (p.b_column == 1) {
            for (int64_t q = 0; q < k; ++q) {
              T* target = p.panel + q * width;
              for (int64_t l = 0; l < columns; ++l) target[l] = b[q * p.b_row + l];
              for (int64_t l = columns; l < width; ++l) target[l] = 0;
            }
          } else {
            for (int64_t l = 0; l < columns; ++l) {
              const T* source = b + l * p.b_column;
              for (int64_t q = 0; q < k; ++q) p.panel[q * width + l] = source[q * p.b_row];
            }
            for (int64_t l = columns; l < width; ++l) {
              for (int64_t q = 0; q < k; ++q) p.panel[q * width + l] = 0;
            }
          }
          b = p.panel;
          b_row = width;
        }
        T* c = p.c + i0 * p.ldc + j;
        if (width == kColumns) {
          Panel<T, kBytes, R, 2>(m, k, a, p.a_row, p.a_column, b, b_row, p.alpha, beta, c, p.ldc,
                                 columns);
        } else {
          Panel<T, kBytes, R, 1>(m, k, a, p.a_row, p.a_column, b, b_row, p.alpha, beta, c, p.ldc,
                                 columns);
        }
      }
    }
  }
}

#if defined(__x86_64__)
#define CAFFE_TARGET(level) [[gnu::target(level)]]
template <class T> CAFFE_TARGET("arch=x86-64-v4") void MultiplyV4(const Product<T>& p) {
  Multiply<T, 64, 12>(p);
}
template <class T> CAFFE_TARGET("arch=x86-64-v3") void MultiplyV3(const Product<T>& p) {
  Multiply<T, 32, 6>(p);
}
#undef CAFFE_TARGET
#endif
template <class T> void MultiplyBase(const Product<T>& p) { Multiply<T, 16, 4>(p); }

template <class T> using Multiplier = void (*)(const Product<T>&);

// For the instruction level of the host kernels.
template <class T> Multiplier<T> Choose() {
#if defined(__x86_64__)
  const InstructionLevel level = HostLevelNumber();
  if (level == InstructionLevel::kV4) return &MultiplyV4<T>;
  if (level == InstructionLevel::kV3) return &MultiplyV3<T>;
#endif
  return &MultiplyBase<T>;
}

template <class T>
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  alignas(64) thread_local T panel[kDepth * 32];
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? T(0) : c[i * ldc + j] * beta;
    }
    return;
  }
  Choose<T>()({m, n, k, alpha, beta, a, trans_a ? 1 : lda, trans_a ? lda : 1, b, trans_b ? 1 : ldb,
               trans_b ? ldb : 1, c, ldc, panel});
}

}  // namespace

const HostGemms& NativeGemms() {
  static const HostGemms gemms{"native", &Gemm<float>, &Gemm<double>, false, true};
  return gemms;
}

}  // namespace caffe
