//! types: float master
// y = slope x / norm with norm = sqrt(sum of squares + eps), over [outer, channels, inner]. The sum
// is that of an item or of the channels of a pixel: element (n, i) of squares is at n norm_stride +
// i norm_step. slope has one value, or one for each channel: its step is 0 or 1. MItype is the type
// of x and y, MOtype that of slopes; squares and dots are masters.
#include "math/channel_parts.h"

// The sums of squares of the channels of each pixel.
KERNEL(normalize_squares, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), IN(MItype, x),
       OUT(Mastertype, squares)) {
  FOR_EACH_ROW(n, outer, i, inner) {
    Acctype sum = 0;
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, (n * channels + c) * inner + i);
      sum += v * v;
    }
    STORE(Mastertype, squares, n * inner + i, sum);
  }
}

KERNEL(normalize_forward, ARG(i64, rows), ARG(i64, channels), ARG(i64, inner), ARG(Acctype, eps),
       ARG(i64, norm_stride), ARG(i64, norm_step), ARG(i64, slope_step), IN(MItype, x),
       IN(Mastertype, squares), IN(MOtype, slope), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, inner) {
    const Index n = r / channels, c = r - n * channels;
    const Acctype norm = SQRT(LOAD(Mastertype, squares, n * norm_stride + i * norm_step) + eps);
    STORE(MItype, y, r * inner + i,
          LOAD(MItype, x, r * inner + i) / norm * LOAD(MOtype, slope, c * slope_step));
  }
}

// The sums of slope x y_diff over the channels of each pixel.
KERNEL(normalize_dots, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), ARG(i64, slope_step),
       IN(MItype, x), IN(MOtype, slope), IN(MItype, y_diff), OUT(Mastertype, dots)) {
  FOR_EACH_ROW(n, outer, i, inner) {
    Acctype sum = 0;
    for (Index c = 0; c < channels; ++c) {
      const Index at = (n * channels + c) * inner + i;
      sum += LOAD(MItype, x, at) * LOAD(MItype, y_diff, at) * LOAD(MOtype, slope, c * slope_step);
    }
    STORE(Mastertype, dots, n * inner + i, sum);
  }
}

// The same of items, as partial sums: see math/channel_parts.h. A channel of the sums is an item,
// with `inner` elements, of which `plane` belong to each slope.
KERNEL(normalize_dot_parts, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner), ARG(i64, slices),
       ARG(i64, lanes), ARG(i64, plane), ARG(i64, slope_step), IN(MItype, x), IN(MOtype, slope),
       IN(MItype, y_diff), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(,
                FOR_LANES(i, lane, lanes, inner) {
                  part += LOAD(MItype, x, row + i) * LOAD(MItype, y_diff, row + i) *
                          LOAD(MOtype, slope, i / plane * slope_step);
                },
                sum)
}

// x_diff = (slope y_diff - x dot / norm^2) / norm.
KERNEL(normalize_backward, ARG(i64, rows), ARG(i64, channels), ARG(i64, inner), ARG(Acctype, eps),
       ARG(i64, norm_stride), ARG(i64, norm_step), ARG(i64, slope_step), IN(MItype, x),
       IN(Mastertype, squares), IN(Mastertype, dots), IN(MOtype, slope), IN(MItype, y_diff),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, inner) {
    const Index n = r / channels, c = r - n * channels, at = n * norm_stride + i * norm_step;
    const Acctype square = LOAD(Mastertype, squares, at) + eps;
    const Acctype d = LOAD(MItype, y_diff, r * inner + i) * LOAD(MOtype, slope, c * slope_step);
    const Acctype along = LOAD(MItype, x, r * inner + i) * (LOAD(Mastertype, dots, at) / square);
    STORE(MItype, x_diff, r * inner + i, (d - along) / SQRT(square));
  }
}

// Partial sums of x y_diff / norm, the gradient of slopes. Element i of a row belongs to pixel i %
// plane.
KERNEL(normalize_slope_parts, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner),
       ARG(i64, slices), ARG(i64, lanes), ARG(i64, plane), ARG(Acctype, eps),
       ARG(i64, norm_stride), ARG(i64, norm_step), IN(MItype, x), IN(Mastertype, squares),
       IN(MItype, y_diff), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(,
                FOR_LANES(i, lane, lanes, inner) {
                  const Index at = o * norm_stride + i % plane * norm_step;
                  part += LOAD(MItype, x, row + i) * LOAD(MItype, y_diff, row + i) /
                          SQRT(LOAD(Mastertype, squares, at) + eps);
                },
                sum)
}
