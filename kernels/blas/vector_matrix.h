//! types: device
//! tests: library
#include "epilogue/bounds.h"
#if ROW_GROUPS
#include "math/row_groups.h"
#endif
// Products of a few rows with a matrix, which take the time of reading the matrix:
//   y [rows, channels] = EPILOGUE(alpha x [rows, depth] weights [channels, depth] + beta y + bias)
// `depth` is a number of bytes, a multiple of 16; rows of y are y_row elements apart. SHARERS items
// share OWN neighbouring channels: each reads every SHARERS-th 16 bytes of their weights, and uses
// what it reads of x for all of them. Defines: ROWS, OWN, SHARERS (a power of two, at most GROUP),
// ELEMENT_BYTES, BFLOAT (1: elements of 2 bytes are bfloat16), BIAS (1: there is one),
// MATRIX_UNITS, ROW_GROUPS (0, or the groups of rows, see math/row_groups.h: then ROWS is 1, and
// the second index of a work group is the row).
#define TEAMS (GROUP / SHARERS)
#define STEP (SHARERS * 16)
#define RESULTS (ROWS * OWN)
// Steps whose reads precede their products.
#if MATRIX_UNITS
#define AHEAD _Pragma("unroll 4")
#else
#define AHEAD
#endif
#ifdef __OPENCL_VERSION__
#define MULTIPLY_ADD(x, y, z) mad(x, y, z)
#else
#define MULTIPLY_ADD(x, y, z) fmaf(x, y, z)
#endif

// sum + the products of the elements of 4 bytes.
DEVICE_FN float add_products(float sum, u32 v, u32 w) {
#if ELEMENT_BYTES == 4
  return MULTIPLY_ADD(as_f32(v), as_f32(w), sum);
#elif BFLOAT
  sum = MULTIPLY_ADD(as_f32(v << 16), as_f32(w << 16), sum);
  return MULTIPLY_ADD(as_f32(v & 0xffff0000u), as_f32(w & 0xffff0000u), sum);
#else
  const float2 a = floats_of_pair(v), b = floats_of_pair(w);
  return MULTIPLY_ADD(a.y, b.y, MULTIPLY_ADD(a.x, b.x, sum));
#endif
}
#define ADD_STEP(k)                                                                      \
  {                                                                                      \
    uint4 w_[OWN];                                                                       \
    UNROLL for (i32 own_ = 0; own_ < OWN; ++own_) {                                      \
      const i32 last_ = channels - 1 - channel;                                          \
      w_[own_] = *(GLOBAL const uint4*)(own_weights +                                    \
                                        (i64)(own_ < last_ ? own_ : last_) * depth + (k)); \
    }                                                                                    \
    UNROLL for (i32 row_ = 0; row_ < ROWS; ++row_) {                                     \
      const uint4 v_ = *(GLOBAL const uint4*)(own_x + (i64)row_ * depth + (k));          \
      UNROLL for (i32 own_ = 0; own_ < OWN; ++own_) {                                    \
        float s_ = sum[row_ * OWN + own_];                                               \
        s_ = add_products(s_, v_.x, w_[own_].x);                                         \
        s_ = add_products(s_, v_.y, w_[own_].y);                                         \
        s_ = add_products(s_, v_.z, w_[own_].z);                                         \
        sum[row_ * OWN + own_] = add_products(s_, v_.w, w_[own_].w);                     \
      }                                                                                  \
    }                                                                                    \
  }

KERNEL(vector_matrix, ARG(i32, channels), ARG(i32, depth), ARG(i32, y_row), ARG(Acctype, alpha),
       ARG(Acctype, beta), ARG(Acctype, activation_a), ARG(Acctype, activation_b),
       ARG(Acctype, coefficient), IN(MOtype, residual), IN(Mastertype, slopes), IN(f32, offsets),
       IN(MItype, x), IN(MItype, weights), IN(Mastertype, bias), OUT(MOtype, y)) {
  LOCAL float part[RESULTS * GROUP];
  const i32 t = LOCAL_ID(0), lane = t % SHARERS, team = t / SHARERS;
  const i32 first = (i32)GROUP_ID(0) * (TEAMS * OWN), channel = first + team * OWN;
#if ROW_GROUPS
  const i32 row0 = (i32)GROUP_ID(1);
  FIND_GROUP(own_group, row0)
  const i32 channel0 = own_group * channels;
#else
  const i32 row0 = 0, channel0 = 0;
#endif
  float sum[RESULTS];
  UNROLL for (i32 i = 0; i < RESULTS; ++i) sum[i] = 0;
  if (channel < channels) {
    GLOBAL const u8* own_weights =
        BYTES_AT(weights, 0) + (i64)(channel0 + channel) * depth + lane * 16;
    GLOBAL const u8* own_x = BYTES_AT(x, 0) + (i64)row0 * depth + lane * 16;
    const i32 whole = depth / STEP * STEP;
    AHEAD for (i32 k = 0; k < whole; k += STEP) ADD_STEP(k)
    if (whole + lane * 16 < depth) ADD_STEP(whole)
  }
  UNROLL for (i32 i = 0; i < RESULTS; ++i) part[i * GROUP + t] = sum[i];
  for (i32 left = SHARERS / 2; left > 0; left /= 2) {
    BARRIER;
    if (lane < left) {
      UNROLL for (i32 i = 0; i < RESULTS; ++i) part[i * GROUP + t] += part[i * GROUP + t + left];
    }
  }
  BARRIER;
  if (t < RESULTS * TEAMS) {
    const i32 row = row0 + t / (OWN * TEAMS), own = t % (OWN * TEAMS);
    if (first + own < channels) {
      const i32 channel_of_all = channel0 + first + own;
      const i64 at = (i64)row * y_row + first + own;
      Acctype v = alpha * part[(t / (OWN * TEAMS) * OWN + own % OWN) * GROUP + own / OWN * SHARERS];
      if (beta != 0) v += beta * LOAD(MOtype, y, at);
      if (BIAS) v += LOAD(Mastertype, bias, channel_of_all);
      STORE(MOtype, y, at, EPILOGUE(v, channel_of_all, channel_of_all, at));
    }
  }
}
#undef TEAMS
#undef STEP
#undef RESULTS
#undef AHEAD
#undef MULTIPLY_ADD
#undef ADD_STEP
