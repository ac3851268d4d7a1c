//! types: device
//! tests: library
#include "dialect/codes.h"
#include "math/requantize_fast.h"
#if VALUES
#include "math/sum_value.h"
#endif
#if ROW_GROUPS
#include "math/row_groups.h"
#endif
// quant/matrix_product.h for a few rows of x and codes of 8 bits, which takes the time of reading
// the weights: y [ROWS, channels], whose rows are y_row elements apart, from x [ROWS, depth], where
// depth is a multiple of 16. 32 items share a channel. Defines: ROWS, SLOPE (1: factors of their
// own below 0), MATRIX_UNITS, ROW_GROUPS (0, or the groups of rows, see math/row_groups.h: then
// ROWS is 1, and the second index of a work group is the row), VALUES (1: y are the real values of
// the sums).
#define SHARERS 32
#define STEP (SHARERS * 16)
#if MATRIX_UNITS
#define AHEAD _Pragma("unroll 8")
#else
#define AHEAD
#endif

KERNEL(vector_product, ARG(i32, channels), FOLD(i32, depth), ARG(i32, packed_depth),
       ARG(i32, y_row), ARG(i32, low), ARG(i32, high), IN(f32, offsets), IN(MItype, x),
       IN(MItype, weights), IN(i64, bias), IN(i32, multiplier), IN(i32, shift),
       IN(i32, negative_multiplier), IN(i32, negative_shift), OUT(MOtype, y)) {
  LOCAL i32 part[ROWS][GROUP];
  const i32 t = LOCAL_ID(0), first = (i32)GROUP_ID(0) * (GROUP / SHARERS);
  const i32 channel = first + t / SHARERS;
#if ROW_GROUPS
  const i32 row0 = (i32)GROUP_ID(1);
  FIND_GROUP(own_group, row0)
  const i32 channel0 = own_group * channels;
#else
  const i32 row0 = 0, channel0 = 0;
#endif
  i32 sum[ROWS];
  UNROLL for (i32 row = 0; row < ROWS; ++row) sum[row] = 0;
  if (channel < channels) {
    AHEAD for (i32 step = 0; step < (depth + STEP - 1) / STEP; ++step) {
      const i32 k = step * STEP + t % SHARERS * 16;
      if (k < depth) {
        const uint4 w =
            *(GLOBAL const uint4*)(BYTES_AT(weights, 0) +
                                   (i64)(channel0 + channel) * packed_depth + k);
        UNROLL for (i32 row = 0; row < ROWS; ++row) {
          const uint4 v = *(GLOBAL const uint4*)BYTES_AT(x, (row0 + row) * depth + k);
          sum[row] = add_byte_products(sum[row], v.x, w.x);
          sum[row] = add_byte_products(sum[row], v.y, w.y);
          sum[row] = add_byte_products(sum[row], v.z, w.z);
          sum[row] = add_byte_products(sum[row], v.w, w.w);
        }
      }
    }
  }
  UNROLL for (i32 row = 0; row < ROWS; ++row) part[row][t] = sum[row];
  BARRIER;
  if (t < ROWS * (GROUP / SHARERS)) {
    const i32 row = t / (GROUP / SHARERS), own = t % (GROUP / SHARERS);
    if (first + own < channels) {
      const i32 c = channel0 + first + own;
      u32 total = (u32)LOAD(i64, bias, c);
      // From different banks.
      UNROLL for (i32 i = 0; i < SHARERS; ++i) {
        total += (u32)part[row][own * SHARERS + ((i + own) & (SHARERS - 1))];
      }
      const i64 at = (i64)(row0 + row) * y_row + first + own;
#if VALUES
      STORE(MOtype, y, at, sum_value((i32)total, LOAD(i32, multiplier, c), LOAD(i32, shift, c)));
#else
#if SLOPE
      const i64 v = requantize_slope((i32)total, LOAD(i32, multiplier, c), LOAD(i32, shift, c),
                                     LOAD(i32, negative_multiplier, c),
                                     LOAD(i32, negative_shift, c));
#else
      const i64 v = requantize_sum((i32)total, LOAD(i32, multiplier, c), LOAD(i32, shift, c));
#endif
      STORE(MOtype, y, at, (Acctype)(v < low ? low : v > high ? high : v));
#endif
    }
  }
}
#undef SHARERS
#undef STEP
#undef AHEAD
