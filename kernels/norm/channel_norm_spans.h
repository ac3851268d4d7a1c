//! types: device float
// channel_norm.h and the statistics of batch_norm.h for x [outer, channels], whose channels are
// neighbours, on devices. An item computes SPAN channels of every slices-th row. Partial sums are
// [2, slices, channels].
#include "epilogue/clip.h"
#define SPANS (((Index)channels + SPAN - 1) / SPAN)
#define FOR_ROWS(k, n) UNROLL for (i32 k = 0; k < (n); ++k)
#define LOAD_CHANNELS(v, p) LOAD_SPAN(Mastertype, v, p, c, channels)
#define ROW(o) ((o) * (Index)channels)
#define LOAD_ROW(T, v, p, o) LOAD_SPAN(T, v, p, ROW(o) + c, ROW((o) + 1))
#define LOAD_WHOLE_ROW(T, v, p, o) LOAD_WHOLE_SPAN(T, v, p, ROW(o) + c)
#define STORE_ROW(T, p, o, v) STORE_SPAN(T, p, ROW(o) + c, ROW((o) + 1), v)
// Calls rows(o, n, load) for n rows from o on, `slices` apart. If all spans are whole, it computes
// `batch` rows at a time, whose loads do not wait for each other.
#define EACH_ROW(whole, batch, rows)                                                           \
  Index o_ = slice;                                                                            \
  if (whole) {                                                                                 \
    for (; o_ + ((batch) - 1) * (Index)slices < outer; o_ += (batch) * (Index)slices) {        \
      rows(o_, batch, LOAD_WHOLE_ROW)                                                          \
    }                                                                                          \
  }                                                                                            \
  for (; o_ < outer; o_ += (Index)slices) { rows(o_, 1, LOAD_ROW) }
#define WHOLE(p) (channels % SPAN == 0 && BEGINS_WHOLE(p))

// Four rows of x. Sums of differences from their mean are exact enough for a variance.
#define SHIFT_ROW(k) ((2 * (k) + 1) * (Index)outer / 8)

// Sums of x - shift and of (x - shift)^2.
KERNEL(channel_moments, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), IN(MItype, x), OUT(Mastertype, parts)) {
  FOR_EACH_GROUP(g, SPANS * (Index)slices) {
    const Index slice = g / SPANS, c = (g - slice * SPANS) * SPAN;
    Acctype shift[SPAN], sum[SPAN], square[SPAN], v[4][SPAN];
    FOR_ROWS(k, 4) LOAD_ROW(MItype, v[k], x, SHIFT_ROW(k));
    FOR_SPAN(i) {
      shift[i] = ((v[0][i] + v[1][i]) + (v[2][i] + v[3][i])) * (Acctype)0.25f;
      sum[i] = square[i] = 0;
    }
#define ADD_MOMENTS(o, n, load)                                                                \
  FOR_ROWS(k, n) load(MItype, v[k], x, o + k * (Index)slices);                                 \
  FOR_ROWS(k, n) FOR_SPAN(i) {                                                                 \
    const Acctype d = v[k][i] - shift[i];                                                      \
    sum[i] += d;                                                                               \
    square[i] += d * d;                                                                        \
  }
    EACH_ROW(WHOLE(x), 4, ADD_MOMENTS)
    STORE_ROW(Mastertype, parts, slice, sum);
    STORE_ROW(Mastertype, parts, (Index)slices + slice, square);
  }
}

// Adds parts [2, count, channels] of channel c to two sums, eight of each at a time.
#define PARTS 8
#define PART_AT(w, p) (((w) * (Index)count + (p)) * (Index)channels + c)
#define ADD_PARTS(first, second)                                                               \
  Index p_ = 0;                                                                                \
  for (; p_ + PARTS <= count; p_ += PARTS) {                                                   \
    Acctype a_[PARTS], b_[PARTS];                                                              \
    FOR_ROWS(k, PARTS) {                                                                       \
      a_[k] = LOAD(Mastertype, parts, PART_AT(0, p_ + k));                                     \
      b_[k] = LOAD(Mastertype, parts, PART_AT(1, p_ + k));                                     \
    }                                                                                          \
    FOR_ROWS(k, PARTS) {                                                                       \
      first += a_[k];                                                                          \
      second += b_[k];                                                                         \
    }                                                                                          \
  }                                                                                            \
  for (; p_ < count; ++p_) {                                                                   \
    first += LOAD(Mastertype, parts, PART_AT(0, p_));                                          \
    second += LOAD(Mastertype, parts, PART_AT(1, p_));                                         \
  }

// The statistics from those sums, [2, count, channels]; m = outer. As batch_norm_mean and
// batch_norm_variance.
KERNEL(channel_moments_finish, ARG(i64, channels), ARG(i64, outer), ARG(i64, count),
       IN(MItype, x), IN(Mastertype, parts), ARG(Acctype, factor), ARG(Acctype, correction),
       ARG(Acctype, fraction), ARG(Acctype, eps), OUT(Mastertype, mean), OUT(Mastertype, inverse),
       OUT(Mastertype, means), OUT(Mastertype, variances), OUT(Mastertype, weight)) {
  FOR_EACH_GROUP(c, channels) {
    Acctype v[4], sum = 0, square = 0;
    FOR_ROWS(k, 4) v[k] = LOAD(MItype, x, SHIFT_ROW(k) * (Index)channels + c);
    ADD_PARTS(sum, square)
    const Acctype shift = ((v[0] + v[1]) + (v[2] + v[3])) * (Acctype)0.25f;
    const Acctype distance = sum * factor, center = shift + distance;
    const Acctype spread = (square - sum * distance) * factor;
    const Acctype variance = spread < 0 ? 0 : spread;
    STORE(Mastertype, mean, c, center);
    STORE(Mastertype, inverse, c, 1 / SQRT(variance + eps));
    STORE(Mastertype, means, c, LOAD(Mastertype, means, c) * fraction + center);
    STORE(Mastertype, variances, c,
          LOAD(Mastertype, variances, c) * fraction + variance * correction);
    if (c == 0) STORE(Mastertype, weight, 0, LOAD(Mastertype, weight, 0) * fraction + 1);
  }
}

// y = (x - mean) (inverse slope) + bias, clamped.
KERNEL(channel_norm_spans, ARG(i64, channels), ARG(i64, outer), ARG(i64, slices),
       ARG(Acctype, low), ARG(Acctype, high), IN(MItype, x), IN(Mastertype, mean),
       IN(Mastertype, inverse), IN(Mastertype, slope), IN(Mastertype, bias), OUT(MOtype, y)) {
  FOR_EACH_GROUP(g, SPANS * (Index)slices) {
    const Index slice = g / SPANS, c = (g - slice * SPANS) * SPAN;
    Acctype center[SPAN], scale[SPAN], s[SPAN], b[SPAN], v[4][SPAN];
    LOAD_CHANNELS(center, mean);
    LOAD_CHANNELS(scale, inverse);
    LOAD_CHANNELS(s, slope);
    LOAD_CHANNELS(b, bias);
    FOR_SPAN(i) scale[i] *= s[i];
#define NORMALIZE(o, n, load)                                                                  \
  FOR_ROWS(k, n) load(MItype, v[k], x, o + k * (Index)slices);                                 \
  FOR_ROWS(k, n) {                                                                             \
    FOR_SPAN(i) v[k][i] = clip_value((v[k][i] - center[i]) * scale[i] + b[i], low, high);      \
    STORE_ROW(MOtype, y, o + k * (Index)slices, v[k]);                                         \
  }
    EACH_ROW(WHOLE(x), 4, NORMALIZE)
  }
}

// Partial sums of d and of v d, as channel_norm_gradient_parts.
KERNEL(channel_norm_gradient_spans, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner),
       ARG(i64, slices), ARG(i64, lanes), ARG(i32, gate), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, slope),
       IN(Mastertype, bias), OUT(Mastertype, parts)) {
  FOR_EACH_GROUP(g, SPANS * (Index)slices) {
    const Index slice = g / SPANS, c = (g - slice * SPANS) * SPAN;
    Acctype center[SPAN], factor[SPAN], scale[SPAN], b[SPAN], sum[SPAN], dot[SPAN];
    Acctype v[4][SPAN], d[4][SPAN];
    LOAD_CHANNELS(center, mean);
    LOAD_CHANNELS(factor, inverse);
    LOAD_CHANNELS(scale, slope);
    LOAD_CHANNELS(b, bias);
    FOR_SPAN(i) {
      scale[i] *= factor[i];
      sum[i] = dot[i] = 0;
    }
#define ADD_GRADIENTS(o, n, load)                                                              \
  FOR_ROWS(k, n) {                                                                             \
    load(MItype, v[k], x, o + k * (Index)slices);                                              \
    load(MOtype, d[k], y_diff, o + k * (Index)slices);                                         \
  }                                                                                            \
  FOR_ROWS(k, n) FOR_SPAN(i) {                                                                 \
    const Acctype t = v[k][i] - center[i];                                                     \
    const Acctype open = gate && !(t * scale[i] + b[i] > 0) ? (Acctype)0 : d[k][i];            \
    sum[i] += open;                                                                            \
    dot[i] += open * t;                                                                        \
  }
    EACH_ROW(WHOLE(x) && BEGINS_WHOLE(y_diff), 4, ADD_GRADIENTS)
    FOR_SPAN(i) dot[i] *= factor[i];
    STORE_ROW(Mastertype, parts, slice, sum);
    STORE_ROW(Mastertype, parts, (Index)slices + slice, dot);
  }
}

// The sums from parts [2, count, channels]; also added to the diffs of bias and slope.
KERNEL(channel_norm_gradient_finish, ARG(i64, channels), ARG(i64, count), IN(Mastertype, parts),
       OUT(Mastertype, totals), OUT(Mastertype, bias_diff), OUT(Mastertype, slope_diff)) {
  FOR_EACH_GROUP(c, channels) {
    Acctype sum = 0, dot = 0;
    ADD_PARTS(sum, dot)
    STORE(Mastertype, totals, c, sum);
    STORE(Mastertype, totals, (Index)channels + c, dot);
    STORE(Mastertype, bias_diff, c, LOAD(Mastertype, bias_diff, c) + sum);
    STORE(Mastertype, slope_diff, c, LOAD(Mastertype, slope_diff, c) + dot);
  }
}

// dE/dx from these sums; factor is 1 / outer.
KERNEL(channel_norm_backward_spans, ARG(i64, channels), ARG(i64, outer), ARG(i64, slices),
       ARG(i32, gate), ARG(Acctype, factor), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, mean), IN(Mastertype, inverse), IN(Mastertype, slope),
       IN(Mastertype, bias), IN(Mastertype, sums), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(g, SPANS * (Index)slices) {
    const Index slice = g / SPANS, c = (g - slice * SPANS) * SPAN;
    Acctype center[SPAN], scale[SPAN], b[SPAN], offset[SPAN], by_x[SPAN], v[4][SPAN], d[4][SPAN];
    LOAD_CHANNELS(center, mean);
    LOAD_CHANNELS(by_x, inverse);
    LOAD_CHANNELS(scale, slope);
    LOAD_CHANNELS(b, bias);
    LOAD_CHANNELS(offset, sums);
    LOAD_SPAN(Mastertype, d[0], sums, (Index)channels + c, 2 * (Index)channels);
    FOR_SPAN(i) {
      scale[i] *= by_x[i];
      offset[i] *= factor * scale[i];
      by_x[i] *= d[0][i] * factor * scale[i];
    }
#define GRADIENTS(o, n, load)                                                                  \
  FOR_ROWS(k, n) {                                                                             \
    load(MItype, v[k], x, o + k * (Index)slices);                                              \
    load(MOtype, d[k], y_diff, o + k * (Index)slices);                                         \
  }                                                                                            \
  FOR_ROWS(k, n) {                                                                             \
    FOR_SPAN(i) {                                                                              \
      const Acctype t = v[k][i] - center[i];                                                   \
      const Acctype open = gate && !(t * scale[i] + b[i] > 0) ? (Acctype)0 : d[k][i];          \
      v[k][i] = open * scale[i] - offset[i] - t * by_x[i];                                     \
    }                                                                                          \
    STORE_ROW(MItype, x_diff, o + k * (Index)slices, v[k]);                                    \
  }
    EACH_ROW(WHOLE(x) && BEGINS_WHOLE(y_diff), 4, GRADIENTS)
  }
}
