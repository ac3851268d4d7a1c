//! types: float
//! runs: host lrn_channels_rows
//! runs: device lrn_channels
// Local response normalisation across channels (see lrn.h) of x [rows, channels], whose channels are
// neighbours. The sums have the order of lrn.h.
#include "epilogue/lrn_power.h"
#include "epilogue/lrn_powers.h"
KERNEL(lrn_channels, ARG(i64, rows), FOLD(i32, channels), FOLD(i64, reach), FOLD(i32, quarters),
       ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW (r, rows, c, channels) {
    const Index at = r * channels + c;
    const Index first = at - (c < reach ? c : (Index)reach);
    const Index last = at + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    Acctype sum = 0;
    for (Index p = first; p <= last; ++p) {
      const Acctype v = LOAD(MItype, x, p);
      sum += v * v;
    }
    STORE(MOtype, y, at, LOAD(MItype, x, at) * lrn_power(k + factor * sum, quarters, beta));
  }
}

// The same for processors: an item is a row, computed for 256 channels at a time.
KERNEL(lrn_channels_rows, ARG(i64, rows), FOLD(i32, channels), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP (r, rows) {
    for (Index start = 0; start < channels; start += 256) {
      const Index count = channels - start < 256 ? channels - start : 256;
      const Index own = r * channels + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index q = -reach; q <= reach; ++q) {
        const Index first = start + q < 0 ? -(start + q) : 0;
        const Index rest = channels - start - q, last = rest < count ? rest : count;
        SIMD for (Index i = first; i < last; ++i) {
          const Acctype v = LOAD(MItype, x, own + q + i);
          sums[i] += v * v;
        }
      }
      SIMD for (Index i = 0; i < count; ++i) sums[i] = k + factor * sums[i];
      lrn_powers(sums, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        STORE(MOtype, y, own + i, LOAD(MItype, x, own + i) * sums[i]);
      }
    }
  }
}
