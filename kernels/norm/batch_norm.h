//! types: float
// Normalisation of [outer, channels, inner] per channel: v = (x - mean) * inverse, y = v clamped to
// [low, high], the bounds of a ReLU or infinite ones; with `gate` a gradient passes where v > 0.
// Element (r, i) belongs to channel r % channels in "rows", to channel i in "columns". Statistics
// and the layer's blobs are masters. In place allowed; the gradients read the original x, and
// x_diff may be y_diff.
#include "epilogue/clip.h"
#include "math/channel_parts.h"

KERNEL(batch_norm_mean, ARG(i64, channels), ARG(i64, count), IN(Mastertype, parts),
       ARG(Acctype, factor), OUT(Mastertype, mean)) {
  FOR_EACH(c, channels) {
    Acctype sum = 0;
    for (Index p = 0; p < count; ++p) sum += LOAD(Mastertype, parts, p * channels + c);
    STORE(Mastertype, mean, c, sum * factor);
  }
}

// Partial sums of (x - mean)^2; see math/channel_parts.h.
KERNEL(batch_norm_square_parts, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner),
       ARG(i64, slices), ARG(i64, lanes), IN(MItype, x), IN(Mastertype, mean),
       OUT(Mastertype, parts)) {
  CHANNEL_PARTS(const Acctype center = LOAD(Mastertype, mean, c);,
                LANES1(lane, lanes, row, inner, MItype, x, v, part += (v - center) * (v - center)),
                sum)
}

// The variance from those sums: inverse = 1 / sqrt(variance + eps); also updates the blobs.
// correction is m / (m - 1).
KERNEL(batch_norm_variance, ARG(i64, channels), ARG(i64, count), IN(Mastertype, parts),
       IN(Mastertype, mean), ARG(Acctype, factor), ARG(Acctype, correction),
       ARG(Acctype, fraction), ARG(Acctype, eps), OUT(Mastertype, inverse),
       OUT(Mastertype, means), OUT(Mastertype, variances), OUT(Mastertype, weight)) {
  FOR_EACH_GROUP(c, channels) {
    Acctype sum = 0;
    for (Index p = 0; p < count; ++p) sum += LOAD(Mastertype, parts, p * channels + c);
    const Acctype variance = sum * factor;
    STORE(Mastertype, inverse, c, 1 / SQRT(variance + eps));
    STORE(Mastertype, means, c, LOAD(Mastertype, means, c) * fraction + LOAD(Mastertype, mean, c));
    STORE(Mastertype, variances, c,
          LOAD(Mastertype, variances, c) * fraction + variance * correction);
    if (c == 0) STORE(Mastertype, weight, 0, LOAD(Mastertype, weight, 0) * fraction + 1);
  }
}

// Mean and inverse from the blobs.
KERNEL(batch_norm_global, ARG(i64, channels), IN(Mastertype, means), IN(Mastertype, variances),
       IN(Mastertype, weight), ARG(Acctype, eps), OUT(Mastertype, mean),
       OUT(Mastertype, inverse)) {
  FOR_EACH(c, channels) {
    const Acctype w = LOAD(Mastertype, weight, 0), factor = w == 0 ? 0 : 1 / w;
    STORE(Mastertype, mean, c, LOAD(Mastertype, means, c) * factor);
    STORE(Mastertype, inverse, c, 1 / SQRT(LOAD(Mastertype, variances, c) * factor + eps));
  }
}

SPAN_KERNEL(batch_norm_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels),
       ARG(Acctype, low), ARG(Acctype, high), IN(MItype, x), IN(Mastertype, mean),
       IN(Mastertype, inverse), OUT(MOtype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MOtype, y, MItype, x, v,
            clip_value((v - LOAD(Mastertype, mean, c)) * LOAD(Mastertype, inverse, c), low, high))
}

KERNEL(batch_norm_columns, ARG(i64, rows), ARG(i64, columns), ARG(Acctype, low),
       ARG(Acctype, high), IN(MItype, x), IN(Mastertype, mean), IN(Mastertype, inverse),
       OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype d = LOAD(MItype, x, r * columns + i) - LOAD(Mastertype, mean, i);
    const Acctype v = d * LOAD(Mastertype, inverse, i);
    STORE(MOtype, y, r * columns + i, clip_value(v, low, high));
  }
}

// Partial sums of y_diff and of v y_diff, [2, slices * lanes, channels], over the elements whose
// gate is open.
KERNEL(batch_norm_gradient_parts, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner),
       ARG(i64, slices), ARG(i64, lanes), ARG(i32, gate), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, mean), IN(Mastertype, inverse), OUT(Mastertype, parts)) {
  CHANNEL_PARTS2(const Acctype center = LOAD(Mastertype, mean, c);
                 const Acctype factor = LOAD(Mastertype, inverse, c);,
                 LANES2(lane, lanes, row, inner, MItype, x, u, MOtype, y_diff, e,
                        const Acctype v = (u - center) * factor;
                        const Acctype d = gate && !(v > 0) ? (Acctype)0 : e;
                        sum_part += d; dot_part += d * v))
}

// With `batch`, sums holds [2, channels] of these; factor is 1 / m. Without `batch` and gate x is
// not needed.
DEVICE_FN Acctype batch_norm_gradient(Acctype v, Acctype d, i32 gate, Acctype by_mean,
                                      Acctype by_variance, Acctype inverse) {
  const Acctype open = gate && !(v > 0) ? (Acctype)0 : d;
  return (open - by_mean - v * by_variance) * inverse;
}

SPAN_KERNEL(batch_norm_backward_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels),
            ARG(i32, gate), ARG(i32, batch), ARG(Acctype, factor), IN(MItype, x),
            IN(MOtype, y_diff), IN(Mastertype, mean), IN(Mastertype, inverse),
            IN(Mastertype, sums), OUT(MItype, x_diff)) {
  MAP_ROWS2(rows, columns, channels, c, MItype, x_diff, MItype, x, u, MOtype, y_diff, d,
            batch_norm_gradient(
                (u - LOAD(Mastertype, mean, c)) * LOAD(Mastertype, inverse, c), d, gate,
                batch ? LOAD(Mastertype, sums, c) * factor : 0,
                batch ? LOAD(Mastertype, sums, channels + c) * factor : 0,
                LOAD(Mastertype, inverse, c)))
}

KERNEL(batch_norm_backward_columns, ARG(i64, rows), ARG(i64, columns), ARG(i32, gate),
       ARG(i32, batch), ARG(Acctype, factor), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, sums), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Index at = r * columns + i;
    const Acctype k = LOAD(Mastertype, inverse, i);
    const Acctype v = (LOAD(MItype, x, at) - LOAD(Mastertype, mean, i)) * k;
    const Acctype by_mean = batch ? LOAD(Mastertype, sums, i) * factor : 0;
    const Acctype by_variance = batch ? LOAD(Mastertype, sums, columns + i) * factor : 0;
    STORE(MItype, x_diff, at,
          batch_norm_gradient(v, LOAD(MOtype, y_diff, at), gate, by_mean, by_variance, k));
  }
}
