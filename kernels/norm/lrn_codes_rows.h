//! types: codes
//! runs: host
// Local response normalisation across channels between codes, for processors; see lrn_codes.h for
// the arguments. The loops are those of lrn_rows.h.
#include "epilogue/lrn_power.h"
#include "epilogue/lrn_powers.h"

// Each code of a row is converted and squared once for a block of columns; windows that reach
// beyond its margin read the codes again.
#define LRN_MARGIN 16
KERNEL(lrn_codes_forward_rows, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns),
       FOLD(i64, reach), FOLD(i64, side), FOLD(i32, quarters), ARG(Acctype, factor),
       ARG(Acctype, beta), ARG(Acctype, k), ARG(Acctype, scale), ARG(Acctype, inverse_scale),
       ARG(Acctype, low), ARG(Acctype, high), IN(MItype, x), OUT(MOtype, y)) {
  const Index margin = side < LRN_MARGIN ? (Index)side : LRN_MARGIN;
  FOR_EACH_GROUP(r, rows) {
    const Index h = r % extent;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (extent - 1 - h < reach ? extent - 1 - h : (Index)reach);
    for (Index start = 0; start < columns; start += 256) {
      const Index count = columns - start < 256 ? columns - start : 256;
      const Index from = start < margin ? 0 : start - margin;
      const Index behind = columns - start - count;
      const Index to = start + count + (behind < margin ? behind : margin);
      Acctype square[256 + 2 * LRN_MARGIN], sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = top; p <= bottom && side == 0; ++p) {
        const Index begin = p * columns + start;
        SIMD for (Index i = 0; i < count; ++i) {
          const Acctype v = (Acctype)LOAD(MItype, x, begin + i) * scale;
          sums[i] += v * v;
        }
      }
      for (Index p = top; p <= bottom && side > 0; ++p) {
        const Index row = p * columns;
        SIMD for (Index i = from; i < to; ++i) {
          const Acctype v = (Acctype)LOAD(MItype, x, row + i) * scale;
          square[i - from] = v * v;
        }
        for (Index q = -side; q <= side; ++q) {
          const Index first = start + q < 0 ? -(start + q) : 0;
          const Index rest = columns - start - q, last = rest < count ? rest : count;
          if (q >= -margin && q <= margin) {
            SIMD for (Index i = first; i < last; ++i) sums[i] += square[start + q + i - from];
          } else {
            SIMD for (Index i = first; i < last; ++i) {
              const Acctype v = (Acctype)LOAD(MItype, x, row + start + q + i) * scale;
              sums[i] += v * v;
            }
          }
        }
      }
      SIMD for (Index i = 0; i < count; ++i) sums[i] = k + factor * sums[i];
      lrn_powers(sums, count, quarters, beta);
      const Index own = r * columns + start;
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype v = (Acctype)LOAD(MItype, x, own + i) * scale;
        STORE(MOtype, y, own + i,
              CAT(from_real_, MOtype)(v * sums[i] * inverse_scale, low, high));
      }
    }
  }
}
#undef LRN_MARGIN
