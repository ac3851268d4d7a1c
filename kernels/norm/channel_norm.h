//! types: float
// y = slope v + bias with v = (x - mean) inverse, clamped to [low, high], for each channel of
// [outer, channels, inner]. The bounds are infinite, or those of a ReLU: with `gate` a gradient
// passes where slope v + bias > 0. Element (r, i) belongs to channel r % channels in "rows", to
// channel i in "columns". Statistics, slope and bias are masters. In place allowed; the gradients
// read the original x, and x_diff may be y_diff.
#include "epilogue/clip.h"
#include "math/channel_parts.h"

SPAN_KERNEL(channel_norm_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels),
            ARG(Acctype, low), ARG(Acctype, high), IN(MItype, x), IN(Mastertype, mean),
            IN(Mastertype, inverse), IN(Mastertype, slope), IN(Mastertype, bias),
            OUT(MOtype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MOtype, y, MItype, x, v,
            clip_value((v - LOAD(Mastertype, mean, c)) * LOAD(Mastertype, inverse, c) *
                               LOAD(Mastertype, slope, c) +
                           LOAD(Mastertype, bias, c),
                       low, high))
}

KERNEL(channel_norm_columns, ARG(i64, rows), ARG(i64, columns), ARG(Acctype, low),
       ARG(Acctype, high), IN(MItype, x), IN(Mastertype, mean), IN(Mastertype, inverse),
       IN(Mastertype, slope), IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype d = LOAD(MItype, x, r * columns + i) - LOAD(Mastertype, mean, i);
    const Acctype v = d * LOAD(Mastertype, inverse, i);
    const Acctype z = v * LOAD(Mastertype, slope, i) + LOAD(Mastertype, bias, i);
    STORE(MOtype, y, r * columns + i, clip_value(z, low, high));
  }
}

// Partial sums of y_diff and of v y_diff, [2, slices * lanes, channels], over the elements whose
// gate is open; see math/channel_parts.h.
KERNEL(channel_norm_gradient_parts, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner),
       ARG(i64, slices), ARG(i64, lanes), ARG(i32, gate), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, slope),
       IN(Mastertype, bias), OUT(Mastertype, parts)) {
  CHANNEL_PARTS2(const Acctype center = LOAD(Mastertype, mean, c);
                 const Acctype factor = LOAD(Mastertype, inverse, c);
                 const Acctype s = LOAD(Mastertype, slope, c);
                 const Acctype b = LOAD(Mastertype, bias, c);,
                 LANES2(lane, lanes, row, inner, MItype, x, u, MOtype, y_diff, e,
                        const Acctype v = (u - center) * factor;
                        const Acctype d = gate && !(v * s + b > 0) ? (Acctype)0 : e;
                        sum_part += d; dot_part += d * v))
}

// With `batch`, sums holds [2, channels] of these; factor is 1 / (outer inner). Without `batch` and
// gate x is not needed.
DEVICE_FN Acctype channel_norm_gradient(Acctype v, Acctype d, i32 gate, i32 batch, Acctype by_mean,
                                        Acctype by_variance, Acctype inverse, Acctype slope,
                                        Acctype bias) {
  const Acctype open = gate && !(v * slope + bias > 0) ? (Acctype)0 : d;
  return (open - (batch ? by_mean : 0) - (batch ? v * by_variance : 0)) * (inverse * slope);
}

SPAN_KERNEL(channel_norm_backward_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels),
            ARG(i32, gate), ARG(i32, batch), ARG(Acctype, factor), IN(MItype, x),
            IN(MOtype, y_diff), IN(Mastertype, mean), IN(Mastertype, inverse),
            IN(Mastertype, slope), IN(Mastertype, bias), IN(Mastertype, sums),
            OUT(MItype, x_diff)) {
  MAP_ROWS2(rows, columns, channels, c, MItype, x_diff, MItype, x, u, MOtype, y_diff, d,
            channel_norm_gradient((u - LOAD(Mastertype, mean, c)) * LOAD(Mastertype, inverse, c),
                                  d, gate, batch, LOAD(Mastertype, sums, c) * factor,
                                  LOAD(Mastertype, sums, channels + c) * factor,
                                  LOAD(Mastertype, inverse, c), LOAD(Mastertype, slope, c),
                                  LOAD(Mastertype, bias, c)))
}

KERNEL(channel_norm_backward_columns, ARG(i64, rows), ARG(i64, columns), ARG(i32, gate),
       ARG(i32, batch), ARG(Acctype, factor), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, slope),
       IN(Mastertype, bias), IN(Mastertype, sums), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Index at = r * columns + i;
    const Acctype k = LOAD(Mastertype, inverse, i);
    const Acctype v = (LOAD(MItype, x, at) - LOAD(Mastertype, mean, i)) * k;
    STORE(MItype, x_diff, at,
          channel_norm_gradient(v, LOAD(MOtype, y_diff, at), gate, batch,
                                LOAD(Mastertype, sums, i) * factor,
                                LOAD(Mastertype, sums, columns + i) * factor, k,
                                LOAD(Mastertype, slope, i), LOAD(Mastertype, bias, i)));
  }
}
