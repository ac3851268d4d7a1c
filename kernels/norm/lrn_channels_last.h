//! types: device
// Local response normalisation across channels of x [rows, channels], whose channels are
// neighbours, on devices; see lrn.h. Processors run lrn_rows.h.
#include "epilogue/lrn_power.h"

SPAN_KERNEL(lrn_channels, ARG(i64, rows), FOLD(i32, channels), FOLD(i64, reach),
            FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
            IN(MItype, x), OUT(MOtype, y)) {
  const i64 n = rows * channels;
  FOR_EACH_SPAN(begin, n) {
    Acctype result[SPAN];
    if (SPAN > 1 && channels % SPAN == 0 && reach <= SPAN) {
      // The windows of a span lie in it and in its neighbours. Zeros beyond the row change no sum.
      const Index c = (Index)begin % channels;
      Acctype v[3 * SPAN];
      FOR_SPAN(e) v[e] = v[2 * SPAN + e] = 0;
      if (c > 0) LOAD_SPAN(MItype, v, x, begin - SPAN, n);
      LOAD_SPAN(MItype, v + SPAN, x, begin, n);
      if (c + SPAN < channels) LOAD_SPAN(MItype, v + 2 * SPAN, x, begin + SPAN, n);
      FOR_SPAN(e) {
        Acctype sum = 0;
        UNROLL for (i32 q = -(i32)reach; q <= (i32)reach; ++q) {
          sum += v[SPAN + e + q] * v[SPAN + e + q];
        }
        result[e] = v[SPAN + e] * lrn_power(k + factor * sum, quarters, beta);
      }
    } else {
      for (i32 e = 0; e < SPAN && begin + e < n; ++e) {
        const Index at = (Index)begin + e, c = at % channels;
        const Index first = at - (c < reach ? c : (Index)reach);
        const Index last = at + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
        Acctype sum = 0;
        for (Index p = first; p <= last; ++p) {
          const Acctype v = LOAD(MItype, x, p);
          sum += v * v;
        }
        result[e] = LOAD(MItype, x, at) * lrn_power(k + factor * sum, quarters, beta);
      }
    }
    STORE_SPAN(MOtype, y, begin, n, result);
  }
}
