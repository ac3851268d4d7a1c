//! types: float
//! runs: host
// Local response normalisation (see lrn.h) for processors. An item is a row. Its sums are computed
// for 256 columns at a time, so that the loops with the powers contain no inner loop. The sums have
// the order of lrn.h, and therefore the same bits. Channels that are neighbours are columns: then a
// row is a group of its own.
#include "epilogue/lrn_power.h"
#include "epilogue/lrn_powers.h"

// sums[i] = the sum of VALUE(position) over the window of column start + i of row r.
#define WINDOW_SUMS(sums, r, start, count, VALUE) \
  const Index h = r % extent; \
  const Index top = r - (h < reach ? h : (Index)reach); \
  const Index bottom = r + (extent - 1 - h < reach ? extent - 1 - h : (Index)reach); \
  Acctype sums[256]; \
  SIMD for (Index i = 0; i < count; ++i) sums[i] = 0; \
  for (Index p = top; p <= bottom && side == 0; ++p) { \
    const Index begin = p * columns + start; \
    SIMD for (Index i = 0; i < count; ++i) sums[i] += VALUE(begin + i); \
  } \
  for (Index p = top; p <= bottom && side > 0; ++p) { \
    for (Index q = -side; q <= side; ++q) { \
      const Index first = start + q < 0 ? -(start + q) : 0; \
      const Index rest = columns - start - q, last = rest < count ? rest : count; \
      const Index begin = p * columns + start + q; \
      SIMD for (Index i = first; i < last; ++i) sums[i] += VALUE(begin + i); \
    } \
  }
#define LRN_SQUARE(at) (LOAD(MItype, x, at) * LOAD(MItype, x, at))
#define LRN_RATIO(at) LOAD(Mastertype, ratio, at)

KERNEL(lrn_forward_rows, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, rows) {
    for (Index start = 0; start < columns; start += 256) {
      const Index count = columns - start < 256 ? columns - start : 256, own = r * columns + start;
      WINDOW_SUMS(sums, r, start, count, LRN_SQUARE)
      SIMD for (Index i = 0; i < count; ++i) sums[i] = k + factor * sums[i];
      lrn_powers(sums, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        STORE(MOtype, y, own + i, LOAD(MItype, x, own + i) * sums[i]);
      }
    }
  }
}

KERNEL(lrn_parts_rows, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), IN(MOtype, y_diff), OUT(Mastertype, power),
       OUT(Mastertype, ratio)) {
  FOR_EACH_GROUP(r, rows) {
    for (Index start = 0; start < columns; start += 256) {
      const Index count = columns - start < 256 ? columns - start : 256, own = r * columns + start;
      WINDOW_SUMS(sums, r, start, count, LRN_SQUARE)
      Acctype powers[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = powers[i] = k + factor * sums[i];
      lrn_powers(powers, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype d = LOAD(MOtype, y_diff, own + i), v = LOAD(MItype, x, own + i);
        STORE(Mastertype, power, own + i, powers[i]);
        STORE(Mastertype, ratio, own + i, d * v * powers[i] / sums[i]);
      }
    }
  }
}

KERNEL(lrn_backward_rows, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), ARG(Acctype, factor), ARG(Acctype, beta), IN(MItype, x),
       IN(MOtype, y_diff), IN(Mastertype, power), IN(Mastertype, ratio), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, rows) {
    for (Index start = 0; start < columns; start += 256) {
      const Index count = columns - start < 256 ? columns - start : 256, own = r * columns + start;
      WINDOW_SUMS(sums, r, start, count, LRN_RATIO)
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype d = LOAD(MOtype, y_diff, own + i) * LOAD(Mastertype, power, own + i);
        const Acctype v = LOAD(MItype, x, own + i);
        STORE(MItype, x_diff, own + i, d - 2 * factor * beta * v * sums[i]);
      }
    }
  }
}
#undef WINDOW_SUMS
#undef LRN_SQUARE
#undef LRN_RATIO
