// Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/winograd.hpp"

namespace caffe {
namespace {

constexpr long kLanes = 16;
constexpr int P = 6;  // points

#if defined(__AVX512F__)
constexpr int kWidth = 16, kTileM = 5, kTileN = 5;
#elif defined(__AVX2__)
constexpr int kWidth = 8, kTileM = 3, kTileN = 4;
#else
constexpr int kWidth = 4, kTileM = 3, kTileN = 4;
#endif
typedef float Vector __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

// y = A' [(G g) * (B' d)] in one dimension.
constexpr double kPoint[P - 1] = {0, 1, -1, 0.5, -2};
constexpr float kB[P][P] = {{1, -1.5, -2, 1.5, 1, 0}, {0, -1, 0.5, 2.5, 1, 0},
                            {0, 1, -2.5, 0.5, 1, 0},  {0, -2, -1, 2, 1, 0},
                            {0, 0.5, -1, -0.5, 1, 0}, {0, 1, -1.5, -2, 1.5, 1}};

// Row a of A': the points to the power a; infinity only counts in the last row.
constexpr float A(int tile, int a, int point) {
  if (point == P - 1) return a == tile - 1 ? 1 : 0;
  double value = 1;
  for (int i = 0; i < a; ++i) value *= kPoint[point];
  return static_cast<float>(value);
}

// Likewise, divided by the product of the differences to the other points.
constexpr float G(int window, int point, int k) {
  if (point == P - 1) return k == window - 1 ? 1 : 0;
  double value = 1;
  for (int i = 0; i < k; ++i) value *= kPoint[point];
  for (int i = 0; i < P - 1; ++i) {
    if (i != point) value /= kPoint[point] - kPoint[i];
  }
  return static_cast<float>(value);
}

template <int M> struct Powers {
  float values[M][P];
  constexpr Powers() : values() {
    for (int a = 0; a < M; ++a) {
      for (int j = 0; j < P; ++j) values[a][j] = A(M, a, j);
    }
  }
};
template <int M> constexpr Powers<M> kA;

template <int R> struct Windows {
  float values[P][R];
  constexpr Windows() : values() {
    for (int j = 0; j < P; ++j) {
      for (int k = 0; k < R; ++k) values[j][k] = G(R, j, k);
    }
  }
};
template <int R> constexpr Windows<R> kG;

[[gnu::always_inline]] inline const Vector& Load(const float* p) {
  return *reinterpret_cast<const Vector*>(p);
}
[[gnu::always_inline]] inline Vector& At(float* p) { return *reinterpret_cast<Vector*>(p); }

// A sum of vectors times factors that are constants after unrolling.
struct Combination {
  Vector sum{};
  bool empty = true;
  [[gnu::always_inline]] void Add(float factor, const Vector& value) {
    if (factor == 0) return;
    if (empty) {
      sum = factor == 1 ? value : value * factor;
    } else if (factor == 1) {
      sum += value;
    } else if (factor == -1) {
      sum -= value;
    } else {
      sum += value * factor;
    }
    empty = false;
  }
};

template <int I>
void Input(const WinogradShape& s, const WinogradStrip& strip, const float* x, float* v,
           float* row) {
  const long width = s.in_columns * kLanes, plane = s.inputs * strip.stride;
  for (long c = 0; c < s.inputs; ++c) {
    const float* image = x + c * s.in_rows * width;
    float* target = v + c * strip.stride;
    for (long ty = strip.begin; ty < strip.end; ++ty) {
      const float* source = image + ty * s.tile * width;
      for (long at = 0; at < width; at += kWidth) {
        Combination sum;
#pragma GCC unroll 6
        for (int k = 0; k < P; ++k) {
          if (kB[I][k] != 0) sum.Add(kB[I][k], Load(source + k * width + at));
        }
        At(row + at) = sum.sum;
      }
      for (long tx = 0; tx < s.tiles_x; ++tx, target += kLanes) {
#pragma GCC unroll 4
        for (int part = 0; part < kLanes; part += kWidth) {
          const float* d = row + tx * s.tile * kLanes + part;
          const Vector d0 = Load(d), d1 = Load(d + kLanes), d2 = Load(d + 2 * kLanes),
                       d3 = Load(d + 3 * kLanes), d4 = Load(d + 4 * kLanes),
                       d5 = Load(d + 5 * kLanes), e = d4 - d2, f = d3 - d1;
          float* t = target + part;
          At(t) = d0 + d4 - d2 * 2.0f + f * 1.5f;
          At(t + plane) = (d4 + d2 * 0.5f) + (d3 * 2.5f - d1);
          At(t + 2 * plane) = (d4 - d2 * 2.5f) + (d3 * 0.5f + d1);
          At(t + 3 * plane) = e + f * 2.0f;
          At(t + 4 * plane) = e - f * 0.5f;
          At(t + 5 * plane) = d1 + d5 - d3 * 2.0f + e * 1.5f;
        }
      }
    }
  }
}

template <int I>
void InputAdjoint(const WinogradShape& s, const WinogradStrip& strip, const float* v, float* x,
                  float* row) {
  const long width = s.in_columns * kLanes, plane = s.inputs * strip.stride;
  for (long c = 0; c < s.inputs; ++c) {
    float* image = x + c * s.in_rows * width;
    const float* source = v + c * strip.stride;
    for (long ty = strip.begin; ty < strip.end; ++ty) {
      for (long at = 0; at < width; at += kWidth) At(row + at) = Vector{};
      for (long tx = 0; tx < s.tiles_x; ++tx, source += kLanes) {
#pragma GCC unroll 4
        for (int part = 0; part < kLanes; part += kWidth) {
          float* t = row + tx * s.tile * kLanes + part;
          const float* p = source + part;
          const Vector v0 = Load(p), v1 = Load(p + plane), v2 = Load(p + 2 * plane),
                       v3 = Load(p + 3 * plane), v4 = Load(p + 4 * plane), v5 = Load(p + 5 * plane);
          At(t) += v0;
          At(t + kLanes) += (v2 - v1) + v5 - v0 * 1.5f - v3 * 2.0f + v4 * 0.5f;
          At(t + 2 * kLanes) += v1 * 0.5f - v2 * 2.5f - v0 * 2.0f - v5 * 1.5f - (v3 + v4);
          At(t + 3 * kLanes) +=
              v1 * 2.5f + v2 * 0.5f + v0 * 1.5f - v5 * 2.0f + v3 * 2.0f - v4 * 0.5f;
          At(t + 4 * kLanes) += (v1 + v2) + (v3 + v4) + v0 + v5 * 1.5f;
          At(t + 5 * kLanes) += v5;
        }
      }
      float* target = image + ty * s.tile * width;
      for (long at = 0; at < width; at += kWidth) {
        const Vector value = Load(row + at);
#pragma GCC unroll 6
        for (int k = 0; k < P; ++k) {
          if (kB[I][k] != 0) At(target + k * width + at) += value * kB[I][k];
        }
      }
    }
  }
}

template <int M, int I>
void Output(const WinogradShape& s, const WinogradStrip& strip, const float* m, float* y) {
  constexpr auto& a = kA<M>.values;
  const long width = s.columns * kLanes, plane = s.outputs * strip.stride;
  for (long o = 0; o < s.outputs; ++o) {
    const float* source = m + o * strip.stride;
    for (long ty = strip.begin; ty < strip.end; ++ty) {
      float* target = y + (o * s.rows + ty * M) * width;
      for (long tx = 0; tx < s.tiles_x; ++tx, source += kLanes, target += M * kLanes) {
#pragma GCC unroll 4
        for (int part = 0; part < kLanes; part += kWidth) {
          Vector in[P];
#pragma GCC unroll 6
          for (int j = 0; j < P; ++j) in[j] = Load(source + j * plane + part);
#pragma GCC unroll 4
          for (int e = 0; e < M; ++e) {
            Combination sum;
#pragma GCC unroll 6
            for (int j = 0; j < P; ++j) sum.Add(a[e][j], in[j]);
#pragma GCC unroll 4
            for (int r = 0; r < M; ++r) {
              Vector& place = At(target + r * width + e * kLanes + part);
              // The first slice that contributes to a row of the tile.
              if (I == (r == 0 ? 0 : 1)) {
                place = sum.sum * a[r][I];
              } else if (a[r][I] != 0) {
                place += sum.sum * a[r][I];
              }
            }
          }
        }
      }
    }
  }
}

template <int M, int I>
void OutputAdjoint(const WinogradShape& s, const WinogradStrip& strip, const float* y, float* m) {
  constexpr auto& a = kA<M>.values;
  const long width = s.columns * kLanes, plane = s.outputs * strip.stride;
  for (long o = 0; o < s.outputs; ++o) {
    float* target = m + o * strip.stride;
    for (long ty = strip.begin; ty < strip.end; ++ty) {
      const float* source = y + (o * s.rows + ty * M) * width;
      for (long tx = 0; tx < s.tiles_x; ++tx, target += kLanes, source += M * kLanes) {
#pragma GCC unroll 4
        for (int part = 0; part < kLanes; part += kWidth) {
          Combination in[M];
#pragma GCC unroll 4
          for (int e = 0; e < M; ++e) {
#pragma GCC unroll 4
            for (int r = 0; r < M; ++r) {
              if (a[r][I] != 0) in[e].Add(a[r][I], Load(source + r * width + e * kLanes + part));
            }
          }
#pragma GCC unroll 6
          for (int j = 0; j < P; ++j) {
            Combination sum;
#pragma GCC unroll 4
            for (int e = 0; e < M; ++e) sum.Add(a[e][j], in[e].sum);
            At(target + j * plane + part) = sum.sum;
          }
        }
      }
    }
  }
}

// The lanes are windows.
template <int R> void Filter(long count, long begin, long end, const float* w, float* u) {
  constexpr auto& g = kG<R>.values;
  const long plane = (count + kLanes - 1) / kLanes * kLanes;
  for (long f = begin; f < end; f += kLanes) {
    alignas(64) float window[R][R][kLanes], half[P][R][kLanes];
    for (int i = 0; i < R * R; ++i) {
      for (long l = 0; l < kLanes; ++l) {
        window[i / R][i % R][l] = f + l < count ? w[(f + l) * R * R + i] : 0;
      }
    }
    for (int part = 0; part < kLanes; part += kWidth) {
      for (int k = 0; k < R; ++k) {
#pragma GCC unroll 6
        for (int i = 0; i < P; ++i) {
          Combination sum;
#pragma GCC unroll 5
          for (int r = 0; r < R; ++r) sum.Add(g[i][r], Load(&window[r][k][part]));
          At(&half[i][k][part]) = sum.sum;
        }
      }
      for (int i = 0; i < P; ++i) {
#pragma GCC unroll 6
        for (int j = 0; j < P; ++j) {
          Combination sum;
#pragma GCC unroll 5
          for (int r = 0; r < R; ++r) sum.Add(g[j][r], Load(&half[i][r][part]));
          At(u + (i * P + j) * plane + f + part) = sum.sum;
        }
      }
    }
  }
}

template <int R> void FilterAdjoint(long count, long begin, long end, const float* u, float* w) {
  constexpr auto& g = kG<R>.values;
  const long plane = (count + kLanes - 1) / kLanes * kLanes;
  for (long f = begin; f < end; f += kLanes) {
    alignas(64) float window[R][R][kLanes], half[P][R][kLanes];
    for (int part = 0; part < kLanes; part += kWidth) {
      for (int i = 0; i < P; ++i) {
#pragma GCC unroll 5
        for (int r = 0; r < R; ++r) {
          Combination sum;
#pragma GCC unroll 6
          for (int j = 0; j < P; ++j) sum.Add(g[j][r], Load(u + (i * P + j) * plane + f + part));
          At(&half[i][r][part]) = sum.sum;
        }
      }
      for (int k = 0; k < R; ++k) {
#pragma GCC unroll 5
        for (int r = 0; r < R; ++r) {
          Combination sum;
#pragma GCC unroll 6
          for (int i = 0; i < P; ++i) sum.Add(g[i][r], Load(&half[i][k][part]));
          At(&window[r][k][part]) = sum.sum;
        }
      }
    }
    for (long l = 0; l < kLanes && f + l < count; ++l) {
      for (int i = 0; i < R * R; ++i) w[(f + l) * R * R + i] += window[i / R][i % R][l];
    }
  }
}

float Sum(const Vector& v) {
  typedef float Four __attribute__((vector_size(16)));
  Four four;
#if defined(__AVX512F__)
  typedef float Eight __attribute__((vector_size(32)));
  const Eight eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
         __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#elif defined(__AVX2__)
  four = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  four = v;
#endif
  const Four two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1);
  return two[0] + two[1];
}

// Tiles of sums. The last tile of an axis ends at the edge and skips sums that an earlier tile
// computed.
void Inner(long m, long n, long k, const float* a, const float* b, long stride, float* c) {
  for (long i_done = 0; i_done < m; i_done += kTileM) {
    const long i0 = i_done < m - kTileM ? i_done : m - kTileM;
    for (long j_done = 0; j_done < n; j_done += kTileN) {
      const long j0 = j_done < n - kTileN ? j_done : n - kTileN;
      Vector sum[kTileM][kTileN];
#pragma GCC unroll 8
      for (int i = 0; i < kTileM; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kTileN; ++j) sum[i][j] = Vector{};
      }
      const float *p = a + i0 * stride, *q = b + j0 * stride;
      for (long at = 0; at < k; at += kWidth, p += kWidth, q += kWidth) {
        Vector right[kTileN];
#pragma GCC unroll 8
        for (int j = 0; j < kTileN; ++j) right[j] = Load(q + j * stride);
#pragma GCC unroll 8
        for (int i = 0; i < kTileM; ++i) {
          const Vector left = Load(p + i * stride);
#pragma GCC unroll 8
          for (int j = 0; j < kTileN; ++j) sum[i][j] += left * right[j];
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < kTileM; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kTileN; ++j) {
          const float total = Sum(sum[i][j]);
          if (i0 + i >= i_done && j0 + j >= j_done) c[(i0 + i) * n + j0 + j] += total;
        }
      }
    }
  }
}

void InputOf(const WinogradShape& s, const WinogradStrip& strip, int i, const float* x, float* v,
             float* row) {
  constexpr decltype(&Input<0>) kSlices[] = {&Input<0>, &Input<1>, &Input<2>,
                                             &Input<3>, &Input<4>, &Input<5>};
  kSlices[i](s, strip, x, v, row);
}

void InputAdjointOf(const WinogradShape& s, const WinogradStrip& strip, int i, const float* v,
                    float* x, float* row) {
  constexpr decltype(&InputAdjoint<0>) kSlices[] = {&InputAdjoint<0>, &InputAdjoint<1>,
                                                    &InputAdjoint<2>, &InputAdjoint<3>,
                                                    &InputAdjoint<4>, &InputAdjoint<5>};
  kSlices[i](s, strip, v, x, row);
}

void OutputOf(const WinogradShape& s, const WinogradStrip& strip, int i, const float* m, float* y) {
  constexpr decltype(&Output<2, 0>) kSlices[][P] = {
      {&Output<2, 0>, &Output<2, 1>, &Output<2, 2>, &Output<2, 3>, &Output<2, 4>, &Output<2, 5>},
      {&Output<4, 0>, &Output<4, 1>, &Output<4, 2>, &Output<4, 3>, &Output<4, 4>, &Output<4, 5>}};
  kSlices[s.tile == 4][i](s, strip, m, y);
}

void OutputAdjointOf(const WinogradShape& s, const WinogradStrip& strip, int i, const float* y,
                     float* m) {
  constexpr decltype(&OutputAdjoint<2, 0>) kSlices[][P] = {
      {&OutputAdjoint<2, 0>, &OutputAdjoint<2, 1>, &OutputAdjoint<2, 2>, &OutputAdjoint<2, 3>,
       &OutputAdjoint<2, 4>, &OutputAdjoint<2, 5>},
      {&OutputAdjoint<4, 0>, &OutputAdjoint<4, 1>, &OutputAdjoint<4, 2>, &OutputAdjoint<4, 3>,
       &OutputAdjoint<4, 4>, &OutputAdjoint<4, 5>}};
  kSlices[s.tile == 4][i](s, strip, y, m);
}

void FilterOf(long tile, long count, long begin, long end, const float* w, float* u) {
  (tile == 4 ? &Filter<3> : &Filter<5>)(count, begin, end, w, u);
}

void FilterAdjointOf(long tile, long count, long begin, long end, const float* u, float* w) {
  (tile == 4 ? &FilterAdjoint<3> : &FilterAdjoint<5>)(count, begin, end, u, w);
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const WinogradSteps CAFFE_JOIN(winograd_steps_, CAFFE_HOST_LEVEL);
constinit const WinogradSteps CAFFE_JOIN(winograd_steps_, CAFFE_HOST_LEVEL){
    &InputOf, &InputAdjointOf, &OutputOf, &OutputAdjointOf, &FilterOf, &FilterAdjointOf, &Inner};

}  // namespace caffe
