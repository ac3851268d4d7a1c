//! types: float
//! runs: host
// Local response normalisation across channels (see lrn.h) of x [rows, channels], whose channels are
// neighbours. The sums have the order of lrn.h. An item is a row, computed for 256 channels at a
// time. lrn_channels_last_spans.h has the kernel of devices.
#include "epilogue/lrn_power.h"
#include "epilogue/lrn_powers.h"

KERNEL(lrn_channels_rows, ARG(i64, rows), FOLD(i32, channels), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, rows) {
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
