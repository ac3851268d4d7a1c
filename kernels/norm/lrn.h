//! types: device
// Local response normalisation of x [planes, height, width], planes being images times channels:
//   scale = k + factor * sum of x^2 over a window around the element, factor = alpha / window size
//   y = x scale^-beta
//   x_diff = y_diff scale^-beta - 2 factor beta x * sum of y_diff x scale^(-beta - 1) over windows
// Sums have one fixed order, so that float gives the same bits on every device. lrn_rows.h has the
// CPU's kernels.
#include "epilogue/lrn_power.h"

// The window is 2 reach + 1 channels. A row is a plane, a column a position in it.
KERNEL(lrn_across_forward, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes, i, inner) {
    const Index c = r % (Index)channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    Acctype sum = 0;
    for (Index p = first; p <= last; ++p) {
      const Acctype v = LOAD(MItype, x, p * (Index)inner + i);
      sum += v * v;
    }
    STORE(MOtype, y, r * (Index)inner + i,
          LOAD(MItype, x, r * (Index)inner + i) * lrn_power(k + factor * sum, quarters, beta));
  }
}

// The two factors of x_diff that all elements of a window share: power = scale^-beta and
// ratio = y_diff x scale^(-beta - 1).
KERNEL(lrn_across_parts, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), IN(MOtype, y_diff), OUT(Mastertype, power), OUT(Mastertype, ratio)) {
  FOR_EACH_ROW(r, planes, i, inner) {
    const Index c = r % (Index)channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    Acctype sum = 0;
    for (Index p = first; p <= last; ++p) {
      const Acctype v = LOAD(MItype, x, p * (Index)inner + i);
      sum += v * v;
    }
    const Index at = r * (Index)inner + i;
    const Acctype scale = k + factor * sum, t = lrn_power(scale, quarters, beta);
    STORE(Mastertype, power, at, t);
    STORE(Mastertype, ratio, at, LOAD(MOtype, y_diff, at) * LOAD(MItype, x, at) * t / scale);
  }
}

KERNEL(lrn_across_backward, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner), FOLD(i64, reach),
       ARG(Acctype, factor), ARG(Acctype, beta), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, power), IN(Mastertype, ratio), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes, i, inner) {
    const Index c = r % (Index)channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    Acctype sum = 0;
    for (Index p = first; p <= last; ++p) sum += LOAD(Mastertype, ratio, p * (Index)inner + i);
    const Index at = r * (Index)inner + i;
    const Acctype own = LOAD(MOtype, y_diff, at) * LOAD(Mastertype, power, at);
    STORE(MItype, x_diff, at, own - 2 * factor * beta * LOAD(MItype, x, at) * sum);
  }
}

// The window is (2 reach + 1)^2 positions of one plane. A row is a row of a plane.
KERNEL(lrn_within_forward, ARG(i64, planes), ARG(i64, height), ARG(i64, width), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index h = r % (Index)height;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (height - 1 - h < reach ? height - 1 - h : (Index)reach);
    Acctype sum = 0;
    for (Index p = top; p <= bottom; ++p) {
      for (Index q = -reach; q <= reach; ++q) {
        const i32 inside = c + q >= 0 && c + q < width;
        const Acctype v = inside ? LOAD(MItype, x, p * (Index)width + c + q) : (Acctype)0;
        sum += v * v;
      }
    }
    STORE(MOtype, y, r * (Index)width + c,
          LOAD(MItype, x, r * (Index)width + c) * lrn_power(k + factor * sum, quarters, beta));
  }
}

KERNEL(lrn_within_parts, ARG(i64, planes), ARG(i64, height), ARG(i64, width), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), IN(MOtype, y_diff), OUT(Mastertype, power), OUT(Mastertype, ratio)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index h = r % (Index)height;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (height - 1 - h < reach ? height - 1 - h : (Index)reach);
    Acctype sum = 0;
    for (Index p = top; p <= bottom; ++p) {
      for (Index q = -reach; q <= reach; ++q) {
        const i32 inside = c + q >= 0 && c + q < width;
        const Acctype v = inside ? LOAD(MItype, x, p * (Index)width + c + q) : (Acctype)0;
        sum += v * v;
      }
    }
    const Index at = r * (Index)width + c;
    const Acctype scale = k + factor * sum, t = lrn_power(scale, quarters, beta);
    STORE(Mastertype, power, at, t);
    STORE(Mastertype, ratio, at, LOAD(MOtype, y_diff, at) * LOAD(MItype, x, at) * t / scale);
  }
}

KERNEL(lrn_within_backward, ARG(i64, planes), ARG(i64, height), ARG(i64, width), FOLD(i64, reach),
       ARG(Acctype, factor), ARG(Acctype, beta), IN(MItype, x), IN(MOtype, y_diff),
       IN(Mastertype, power), IN(Mastertype, ratio), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index h = r % (Index)height;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (height - 1 - h < reach ? height - 1 - h : (Index)reach);
    Acctype sum = 0;
    for (Index p = top; p <= bottom; ++p) {
      for (Index q = -reach; q <= reach; ++q) {
        const i32 inside = c + q >= 0 && c + q < width;
        sum += inside ? LOAD(Mastertype, ratio, p * (Index)width + c + q) : (Acctype)0;
      }
    }
    const Index at = r * (Index)width + c;
    const Acctype own = LOAD(MOtype, y_diff, at) * LOAD(Mastertype, power, at);
    STORE(MItype, x_diff, at, own - 2 * factor * beta * LOAD(MItype, x, at) * sum);
  }
}
