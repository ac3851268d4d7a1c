//! types: codes
//! runs: host
// Local response normalisation across channels between codes, for processors; see lrn_codes.h for
// the arguments. The loops are those of lrn_rows.h and lrn_channels_last.h.
#include "epilogue/lrn_power.h"
#include "epilogue/lrn_powers.h"

KERNEL(lrn_codes_across_rows, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner),
       FOLD(i64, reach), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), ARG(Acctype, scale), ARG(Acctype, inverse_scale), ARG(Acctype, low),
       ARG(Acctype, high), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, planes) {
    const Index c = r % channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    for (Index start = 0; start < inner; start += 256) {
      const Index count = inner - start < 256 ? inner - start : 256, own = r * inner + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = first; p <= last; ++p) {
        const Index at = p * inner + start;
        SIMD for (Index i = 0; i < count; ++i) {
          const Acctype v = (Acctype)LOAD(MItype, x, at + i) * scale;
          sums[i] += v * v;
        }
      }
      SIMD for (Index i = 0; i < count; ++i) sums[i] = k + factor * sums[i];
      lrn_powers(sums, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype v = (Acctype)LOAD(MItype, x, own + i) * scale;
        STORE(MOtype, y, own + i,
              CAT(from_real_, MOtype)(v * sums[i] * inverse_scale, low, high));
      }
    }
  }
}

// x [rows, columns], a column being a channel. Each code is converted and squared once for a block of
// columns; windows that reach beyond its margin read the codes again.
#define LRN_MARGIN 16
KERNEL(lrn_codes_channels_rows, ARG(i64, rows), FOLD(i32, columns), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       ARG(Acctype, scale), ARG(Acctype, inverse_scale), ARG(Acctype, low), ARG(Acctype, high),
       IN(MItype, x), OUT(MOtype, y)) {
  const Index margin = reach < LRN_MARGIN ? (Index)reach : LRN_MARGIN;
  FOR_EACH_GROUP(r, rows) {
    for (Index start = 0; start < columns; start += 256) {
      const Index count = columns - start < 256 ? columns - start : 256;
      const Index row = r * columns, own = row + start;
      const Index from = start < margin ? 0 : start - margin;
      const Index rest = columns - start - count;
      const Index to = start + count + (rest < margin ? rest : margin);
      Acctype real[256 + 2 * LRN_MARGIN], square[256 + 2 * LRN_MARGIN], sums[256];
      SIMD for (Index i = from; i < to; ++i) {
        const Acctype v = (Acctype)LOAD(MItype, x, row + i) * scale;
        real[i - from] = v;
        square[i - from] = v * v;
      }
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index q = -reach; q <= reach; ++q) {
        const Index first = start + q < 0 ? -(start + q) : 0;
        const Index after = columns - start - q, last = after < count ? after : count;
        if (q >= -margin && q <= margin) {
          SIMD for (Index i = first; i < last; ++i) sums[i] += square[start + q + i - from];
        } else {
          SIMD for (Index i = first; i < last; ++i) {
            const Acctype v = (Acctype)LOAD(MItype, x, own + q + i) * scale;
            sums[i] += v * v;
          }
        }
      }
      SIMD for (Index i = 0; i < count; ++i) sums[i] = k + factor * sums[i];
      lrn_powers(sums, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype v = real[start + i - from];
        STORE(MOtype, y, own + i,
              CAT(from_real_, MOtype)(v * sums[i] * inverse_scale, low, high));
      }
    }
  }
}
#undef LRN_MARGIN
