//! types: float
//! runs: host
// Local response normalisation (see lrn.h) for processors. An item is a row. Its sums are computed
// for 256 columns at a time, so that the loops with the powers contain no inner loop. The sums have
// the order of lrn.h, and therefore the same bits.
#include "epilogue/lrn_power.h"
#include "epilogue/lrn_powers.h"
KERNEL(lrn_across_forward_rows, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner),
       FOLD(i64, reach), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, planes) {
    const Index c = r % channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    for (Index start = 0; start < inner; start += 256) {
      const Index count = inner - start < 256 ? inner - start : 256, own = r * inner + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = first; p <= last; ++p) {
        const Index at = p * inner + start;
        SIMD for (Index i = 0; i < count; ++i) {
          const Acctype v = LOAD(MItype, x, at + i);
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

KERNEL(lrn_across_parts_rows, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner),
       FOLD(i64, reach), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), IN(MOtype, y_diff), OUT(Mastertype, power),
       OUT(Mastertype, ratio)) {
  FOR_EACH_GROUP(r, planes) {
    const Index c = r % channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    for (Index start = 0; start < inner; start += 256) {
      const Index count = inner - start < 256 ? inner - start : 256, own = r * inner + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = first; p <= last; ++p) {
        const Index at = p * inner + start;
        SIMD for (Index i = 0; i < count; ++i) {
          const Acctype v = LOAD(MItype, x, at + i);
          sums[i] += v * v;
        }
      }
      Acctype powers[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = powers[i] = k + factor * sums[i];
      lrn_powers(powers, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype d = LOAD(MOtype, y_diff, own + i), v = LOAD(MItype, x, own + i);
        STORE(Mastertype, power, own + i, powers[i]);
        STORE(Mastertype, ratio, own + i, d * v * powers[i] / sums[i]);
      }
    }
  }
}

KERNEL(lrn_across_backward_rows, ARG(i64, planes), ARG(i64, channels), ARG(i64, inner),
       FOLD(i64, reach), ARG(Acctype, factor), ARG(Acctype, beta), IN(MItype, x),
       IN(MOtype, y_diff), IN(Mastertype, power), IN(Mastertype, ratio), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, planes) {
    const Index c = r % channels;
    const Index first = r - (c < reach ? c : (Index)reach);
    const Index last = r + (channels - 1 - c < reach ? channels - 1 - c : (Index)reach);
    for (Index start = 0; start < inner; start += 256) {
      const Index count = inner - start < 256 ? inner - start : 256, own = r * inner + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = first; p <= last; ++p) {
        const Index at = p * inner + start;
        SIMD for (Index i = 0; i < count; ++i) sums[i] += LOAD(Mastertype, ratio, at + i);
      }
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype d = LOAD(MOtype, y_diff, own + i) * LOAD(Mastertype, power, own + i);
        const Acctype v = LOAD(MItype, x, own + i);
        STORE(MItype, x_diff, own + i, d - 2 * factor * beta * v * sums[i]);
      }
    }
  }
}

KERNEL(lrn_within_forward_rows, ARG(i64, planes), ARG(i64, height), ARG(i64, width),
       FOLD(i64, reach), FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta),
       ARG(Acctype, k), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, planes * height) {
    const Index h = r % height;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (height - 1 - h < reach ? height - 1 - h : (Index)reach);
    for (Index start = 0; start < width; start += 256) {
      const Index count = width - start < 256 ? width - start : 256, own = r * width + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = top; p <= bottom; ++p) {
        for (Index q = -reach; q <= reach; ++q) {
          const Index first = start + q < 0 ? -(start + q) : 0;
          const Index rest = width - start - q, last = rest < count ? rest : count;
          const Index at = p * width + start + q;
          SIMD for (Index i = first; i < last; ++i) {
            const Acctype v = LOAD(MItype, x, at + i);
            sums[i] += v * v;
          }
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

KERNEL(lrn_within_parts_rows, ARG(i64, planes), ARG(i64, height), ARG(i64, width), FOLD(i64, reach),
       FOLD(i32, quarters), ARG(Acctype, factor), ARG(Acctype, beta), ARG(Acctype, k),
       IN(MItype, x), IN(MOtype, y_diff), OUT(Mastertype, power), OUT(Mastertype, ratio)) {
  FOR_EACH_GROUP(r, planes * height) {
    const Index h = r % height;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (height - 1 - h < reach ? height - 1 - h : (Index)reach);
    for (Index start = 0; start < width; start += 256) {
      const Index count = width - start < 256 ? width - start : 256, own = r * width + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = top; p <= bottom; ++p) {
        for (Index q = -reach; q <= reach; ++q) {
          const Index first = start + q < 0 ? -(start + q) : 0;
          const Index rest = width - start - q, last = rest < count ? rest : count;
          const Index at = p * width + start + q;
          SIMD for (Index i = first; i < last; ++i) {
            const Acctype v = LOAD(MItype, x, at + i);
            sums[i] += v * v;
          }
        }
      }
      Acctype powers[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = powers[i] = k + factor * sums[i];
      lrn_powers(powers, count, quarters, beta);
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype d = LOAD(MOtype, y_diff, own + i), v = LOAD(MItype, x, own + i);
        STORE(Mastertype, power, own + i, powers[i]);
        STORE(Mastertype, ratio, own + i, d * v * powers[i] / sums[i]);
      }
    }
  }
}

KERNEL(lrn_within_backward_rows, ARG(i64, planes), ARG(i64, height), ARG(i64, width),
       FOLD(i64, reach), ARG(Acctype, factor), ARG(Acctype, beta), IN(MItype, x),
       IN(MOtype, y_diff), IN(Mastertype, power), IN(Mastertype, ratio), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, planes * height) {
    const Index h = r % height;
    const Index top = r - (h < reach ? h : (Index)reach);
    const Index bottom = r + (height - 1 - h < reach ? height - 1 - h : (Index)reach);
    for (Index start = 0; start < width; start += 256) {
      const Index count = width - start < 256 ? width - start : 256, own = r * width + start;
      Acctype sums[256];
      SIMD for (Index i = 0; i < count; ++i) sums[i] = 0;
      for (Index p = top; p <= bottom; ++p) {
        for (Index q = -reach; q <= reach; ++q) {
          const Index first = start + q < 0 ? -(start + q) : 0;
          const Index rest = width - start - q, last = rest < count ? rest : count;
          const Index at = p * width + start + q;
          SIMD for (Index i = first; i < last; ++i) sums[i] += LOAD(Mastertype, ratio, at + i);
        }
      }
      SIMD for (Index i = 0; i < count; ++i) {
        const Acctype d = LOAD(MOtype, y_diff, own + i) * LOAD(Mastertype, power, own + i);
        const Acctype v = LOAD(MItype, x, own + i);
        STORE(MItype, x_diff, own + i, d - 2 * factor * beta * v * sums[i]);
      }
    }
  }
}
