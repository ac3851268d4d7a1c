//! types: float
// Sums for each channel.
#include "math/channel_parts.h"

KERNEL(channel_sum, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, a), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(, LANES1(lane, lanes, row, inner, MItype, a, v, part += v), sum)
}

KERNEL(channel_dot, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, a), IN(MItype, b), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(, LANES2(lane, lanes, row, inner, MItype, a, v, MItype, b, u, part += v * u), sum)
}

// Sums of b and of a b: [2, slices * lanes, channels].
KERNEL(channel_sum_dot, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, a), IN(MItype, b), OUT(Mastertype, parts)) {
  CHANNEL_PARTS2(,
                 LANES2(lane, lanes, row, inner, MItype, a, v, MItype, b, u,
                        sum_part += u; dot_part += v * u))
}

// x is [sums, count, channels]; y [sums, channels] = the sum over count, added to y if `add`.
KERNEL(channel_sums_finish, ARG(i64, n), ARG(i64, channels), ARG(i64, count), ARG(i32, add),
       IN(Mastertype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    const Index which = i / channels;
    const Index at = which * count * channels + (i - which * channels);
    Acctype sum = add ? LOAD(MOtype, y, i) : 0;
    for (Index p = 0; p < count; ++p) sum += LOAD(Mastertype, x, at + p * channels);
    STORE(MOtype, y, i, sum);
  }
}
