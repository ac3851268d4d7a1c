//! types: device codes
// Local response normalisation across channels between codes, on devices. The bits are those of a
// conversion to float, lrn_forward or lrn_channels, and a conversion to codes: scale is that
// of x, inverse_scale 1 / that of y, low and high are the ends of y's codes minus its zero point.
#include "epilogue/lrn_power.h"
#include "math/window_sum.h"

#define LRN_REAL(at) ((Acctype)LOAD(MItype, x, at) * scale)
#define LRN_SQUARE(at) (LRN_REAL(at) * LRN_REAL(at))
KERNEL(lrn_codes_forward, ARG(i64, rows), ARG(i64, extent), ARG(i64, columns), FOLD(i64, reach),
       FOLD(i64, side), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), ARG(Acctype, scale), ARG(Acctype, inverse_scale), ARG(Acctype, low),
       ARG(Acctype, high), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    WINDOW_SUM(sum, r, c, LRN_SQUARE)
    const Index at = r * (Index)columns + c;
    const Acctype result = LRN_REAL(at) * lrn_power(k + factor * sum, quarters, beta);
    STORE(MOtype, y, at, CAT(from_real_, MOtype)(result * inverse_scale, low, high));
  }
}
#undef LRN_REAL
#undef LRN_SQUARE

// x [rows, channels]; see lrn_channels_last.h.
SPAN_KERNEL(lrn_codes_channels, ARG(i64, rows), FOLD(i32, channels), FOLD(i64, reach),
            FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
            ARG(Acctype, scale), ARG(Acctype, inverse_scale), ARG(Acctype, low),
            ARG(Acctype, high), IN(MItype, x), OUT(MOtype, y)) {
  const i64 n = rows * channels;
  FOR_EACH_SPAN(begin, n) {
    CAT(acc_, MOtype) result[SPAN];
    if (SPAN > 1 && channels % SPAN == 0 && reach <= SPAN) {
      const Index c = (Index)begin % channels;
      CAT(acc_, MItype) v[3 * SPAN];
      FOR_SPAN(e) v[e] = v[2 * SPAN + e] = 0;
      if (c > 0) LOAD_SPAN(MItype, v, x, begin - SPAN, n);
      LOAD_SPAN(MItype, v + SPAN, x, begin, n);
      if (c + SPAN < channels) LOAD_SPAN(MItype, v + 2 * SPAN, x, begin + SPAN, n);
      FOR_SPAN(e) {
        Acctype sum = 0;
        UNROLL for (i32 q = -(i32)reach; q <= (i32)reach; ++q) {
          const Acctype w = (Acctype)v[SPAN + e + q] * scale;
          sum += w * w;
        }
        const Acctype own = (Acctype)v[SPAN + e] * scale;
        const Acctype real = own * lrn_power(k + factor * sum, quarters, beta);
        result[e] = CAT(from_real_, MOtype)(real * inverse_scale, low, high);
      }
    } else {
      for (i32 e = 0; e < SPAN && begin + e < n; ++e) {
        const Index at = (Index)begin + e, c = at % channels;
        const Index first = at - (c < reach ? c : (Index)reach);
        const Index last = at + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
        Acctype sum = 0;
        for (Index p = first; p <= last; ++p) {
          const Acctype w = (Acctype)LOAD(MItype, x, p) * scale;
          sum += w * w;
        }
        const Acctype own = (Acctype)LOAD(MItype, x, at) * scale;
        const Acctype real = own * lrn_power(k + factor * sum, quarters, beta);
        result[e] = CAT(from_real_, MOtype)(real * inverse_scale, low, high);
      }
    }
    STORE_SPAN(MOtype, y, begin, n, result);
  }
}
