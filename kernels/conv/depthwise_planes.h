//! types: float master
//! tests: library
//! runs: host
// Depthwise convolution (see depthwise.h) for processors. An item is a plane. A strip of its rows
// is copied to `image` with padding, so that the loops treat all rows as one: a tap is an offset,
// and the columns beyond the output are dropped at the end. With strides, image holds stride_h
// stride_w images of every stride-th row and column. The caller ensures that all this, and the
// strip itself in `flat`, fits into 8192 elements with 64 to spare, and that there are at most 256
// taps.
#include "epilogue/stages.h"

// image = `count` rows of every image of x, the first of which is row `top` of the plane. flat
// holds the rows from max(top, 0) on. The elements left and right of the plane are already 0.
DEVICE_FN void depthwise_spread(const Acctype* flat, Acctype* image, i32 top, i32 count, i32 in_h,
                                i32 in_w, i32 stride_h, i32 stride_w, i32 pad_w, i32 rows,
                                i32 pitch) {
  for (i32 b = 0; b < stride_w; ++b) {
    const i32 left = b - pad_w, first = left < 0 ? (stride_w - 1 - left) / stride_w : 0;
    const i32 end = left < in_w ? (in_w - 1 - left) / stride_w + 1 : 0;
    const i32 last = end < pitch ? end : pitch;
    for (i32 a = 0; a < stride_h; ++a) {
      for (i32 j = 0; j < count; ++j) {
        const i32 h = top + j * stride_h + a;
        const Index to = ((a * stride_w + b) * rows + j) * pitch;
        const Index from = (h - (top > 0 ? top : 0)) * in_w + left;
        if (h < 0 || h >= in_h) {
          for (Index i = first; i < last; ++i) image[to + i] = 0;
        } else if (stride_w == 1) {
          SIMD for (Index i = first; i < last; ++i) image[to + i] = flat[from + i];
        } else {
          for (Index i = first; i < last; ++i) image[to + i] = flat[from + i * stride_w];
        }
      }
    }
  }
}

// sums[k] += weight[t] image[offset[t] + k] for k < n and all t in [begin, end). Nine and four taps
// at a time, so that sums stay in registers.
DEVICE_FN void depthwise_add_taps(const Acctype* image, const Acctype* weight, const i32* offset,
                                  i32 begin, i32 end, i32 n, Acctype* sums) {
  i32 t = begin;
  for (; t + 9 <= end; t += 9) {
    const Acctype w0 = weight[t], w1 = weight[t + 1], w2 = weight[t + 2], w3 = weight[t + 3];
    const Acctype w4 = weight[t + 4], w5 = weight[t + 5], w6 = weight[t + 6], w7 = weight[t + 7];
    const Acctype w8 = weight[t + 8];
    const Index o0 = offset[t], o1 = offset[t + 1], o2 = offset[t + 2], o3 = offset[t + 3];
    const Index o4 = offset[t + 4], o5 = offset[t + 5], o6 = offset[t + 6], o7 = offset[t + 7];
    const Index o8 = offset[t + 8];
    SIMD for (Index k = 0; k < n; ++k) {
      sums[k] = sums[k] + w0 * image[o0 + k] + w1 * image[o1 + k] + w2 * image[o2 + k] +
                w3 * image[o3 + k] + w4 * image[o4 + k] + w5 * image[o5 + k] + w6 * image[o6 + k] +
                w7 * image[o7 + k] + w8 * image[o8 + k];
    }
  }
  for (; t + 4 <= end; t += 4) {
    const Acctype w0 = weight[t], w1 = weight[t + 1], w2 = weight[t + 2], w3 = weight[t + 3];
    const Index o0 = offset[t], o1 = offset[t + 1], o2 = offset[t + 2], o3 = offset[t + 3];
    SIMD for (Index k = 0; k < n; ++k) {
      sums[k] = sums[k] + w0 * image[o0 + k] + w1 * image[o1 + k] + w2 * image[o2 + k] +
                w3 * image[o3 + k];
    }
  }
  for (; t < end; ++t) {
    const Acctype w0 = weight[t];
    const Index o0 = offset[t];
    SIMD for (Index k = 0; k < n; ++k) sums[k] += w0 * image[o0 + k];
  }
}

// A strip of an image has `rows` rows of `pitch`, `strip` of which are rows of y. slope_axis is 1
// where PReLU has a slope for each output, 0 where it has one for all; stages and functions as in
// epilogue/stages.h.
KERNEL(depthwise_forward_planes, ARG(i64, planes), ARG(i64, outputs), ARG(i64, multiplier),
       ARG(i32, in_h), ARG(i32, in_w), ARG(i32, out_h), ARG(i32, out_w), ARG(i32, stride_h),
       ARG(i32, stride_w), ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, taps), ARG(i32, strip),
       ARG(i32, rows), ARG(i32, pitch), ARG(i32, has_bias), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, residual),
       IN(Mastertype, slopes), ARG(i32, slope_axis), ARG(i32, stages), ARG(u64, functions),
       IN(i32, table), IN(MItype, x), IN(MItype, weights), IN(Mastertype, bias), OUT(MOtype, y)) {
  Acctype flat[8192], image[8192], sums[8192], weight[256];
  i32 offset[256];
  SIMD for (i32 i = 0; i < 8192; ++i) image[i] = 0;
  for (i32 t = 0; t < taps; ++t) offset[t] = LOAD(i32, table, t);
  FOR_EACH_GROUP(p, planes) {
    const Index o = p % outputs, source = p / multiplier * in_h;
    for (i32 t = 0; t < taps; ++t) weight[t] = LOAD(MItype, weights, o * taps + t);
    const Acctype start = has_bias ? LOAD(Mastertype, bias, o) : (Acctype)0;
    for (i32 top = 0; top < out_h; top += strip) {
      const i32 count = out_h - top < strip ? out_h - top : strip, seen = count + rows - strip;
      const i32 above = top * stride_h - pad_h, below = above + seen * stride_h;
      const i32 begin = above > 0 ? above : 0, end = below < in_h ? below : in_h;
      const Index from = (source + begin) * in_w;
      SIMD for (Index i = 0; i < (end - begin) * in_w; ++i) flat[i] = LOAD(MItype, x, from + i);
      depthwise_spread(flat, image, above, seen, in_h, in_w, stride_h, stride_w, pad_w, rows,
                       pitch);
      const i32 n = (count * pitch + 15) & ~15;
      SIMD for (i32 k = 0; k < n; ++k) sums[k] = start;
      depthwise_add_taps(image, weight, offset, 0, taps, n, sums);
      for (i32 j = 0; j < count; ++j) {
        SIMD for (Index i = 0; i < out_w; ++i) flat[j * out_w + i] = sums[j * pitch + i];
      }
      const Index to = (p * out_h + top) * out_w;
      if (stages == 1 && functions == FunctionClip) {
        SIMD for (Index i = 0; i < count * out_w; ++i) {
          STORE(MOtype, y, to + i, clip_value(flat[i], activation_a, activation_b));
        }
        continue;
      }
      const STORAGE(MOtype)* const summand = residual;
      apply_stages(flat, count * out_w, stages, functions, activation_a, activation_b, coefficient,
                   slopes + (slope_axis ? o : 0), 0, 0, &summand, to, residual_zero);
      SIMD for (Index i = 0; i < count * out_w; ++i) STORE(MOtype, y, to + i, flat[i]);
    }
  }
}

// image is y_diff here, and sums are x_diff as stride_h stride_w images. x is indexed with its
// padding: row j of image a is row j stride_h + a - pad_h of x, for all_rows values of j from
// first_h on; the same for columns. table [stride_h stride_w + 1] has the first tap of each image
// in the lists that follow: of taps, and of their offsets.
KERNEL(depthwise_backward_data_planes, ARG(i64, planes), ARG(i64, channels), ARG(i64, multiplier),
       ARG(i32, in_h), ARG(i32, in_w), ARG(i32, out_h), ARG(i32, out_w), ARG(i32, stride_h),
       ARG(i32, stride_w), ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, taps), ARG(i32, strip),
       ARG(i32, rows), ARG(i32, pitch), ARG(i32, first_h), ARG(i32, first_w), ARG(i32, all_rows),
       ARG(i32, reach_w), IN(i32, table), IN(MOtype, y_diff), IN(MItype, weights),
       OUT(MItype, x_diff)) {
  Acctype flat[8192], image[8192], sums[8192], weight[256];
  i32 offset[256];
  SIMD for (i32 i = 0; i < 8192; ++i) image[i] = 0;
  const i32 images = stride_h * stride_w, reach_h = rows - strip;
  const i32 slot = (strip * pitch + 15) & ~15;  // of sums for each image of x
  for (i32 t = 0; t < taps; ++t) offset[t] = LOAD(i32, table, images + 1 + taps + t);
  FOR_EACH_GROUP(p, planes) {
    for (i32 top = 0; top < all_rows; top += strip) {
      const i32 count = all_rows - top < strip ? all_rows - top : strip, seen = count + reach_h;
      const i32 above = first_h + top - reach_h, below = above + seen;
      const i32 begin = above > 0 ? above : 0, end = below < out_h ? below : out_h;
      const i32 n = (count * pitch + 15) & ~15;
      for (i32 m = 0; m < multiplier; ++m) {
        const Index o = p % channels * multiplier + m;
        for (i32 t = 0; t < taps; ++t) {
          weight[t] = LOAD(MItype, weights, o * taps + LOAD(i32, table, images + 1 + t));
        }
        const Index from = ((p * multiplier + m) * out_h + begin) * out_w;
        SIMD for (Index i = 0; i < (end - begin) * out_w; ++i) {
          flat[i] = LOAD(MOtype, y_diff, from + i);
        }
        depthwise_spread(flat, image, above, seen, out_h, out_w, 1, 1, reach_w - first_w, rows,
                         pitch);
        for (i32 a = 0; a < images; ++a) {
          if (m == 0) {
            SIMD for (i32 k = 0; k < n; ++k) sums[a * slot + k] = 0;
          }
          depthwise_add_taps(image, weight, offset, LOAD(i32, table, a), LOAD(i32, table, a + 1), n,
                             sums + a * slot);
        }
      }
      const i32 upper = (first_h + top) * stride_h - pad_h, lower = upper + count * stride_h;
      const i32 h0 = upper > 0 ? upper : 0, h1 = lower < in_h ? lower : in_h;
      for (i32 h = h0; h < h1; ++h) {
        const i32 j = (h - upper) / stride_h, a = h - upper - j * stride_h;
        for (i32 b = 0; b < stride_w; ++b) {
          const i32 left = first_w * stride_w + b - pad_w, first = left < 0 ? 1 : 0;
          const i32 last = left < in_w ? (in_w - 1 - left) / stride_w + 1 : 0;
          const Index of = (a * stride_w + b) * slot + j * pitch, at = (h - h0) * in_w + left;
          if (stride_w == 1) {
            SIMD for (Index i = first; i < last; ++i) flat[at + i] = sums[of + i];
          } else {
            for (Index i = first; i < last; ++i) flat[at + i * stride_w] = sums[of + i];
          }
        }
      }
      const Index to = (p * in_h + h0) * in_w;
      SIMD for (Index i = 0; i < (h1 - h0) * in_w; ++i) STORE(MItype, x_diff, to + i, flat[i]);
    }
  }
}

// w_diff += the gradient; an item is a plane of the weights. `grad` is y_diff with 0 in the columns
// beyond the output.
KERNEL(depthwise_backward_weights_planes, ARG(i64, planes), ARG(i64, images), ARG(i64, multiplier),
       ARG(i32, in_h), ARG(i32, in_w), ARG(i32, out_h), ARG(i32, out_w), ARG(i32, stride_h),
       ARG(i32, stride_w), ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, taps), ARG(i32, strip),
       ARG(i32, rows), ARG(i32, pitch), IN(i32, table), IN(MItype, x), IN(MOtype, y_diff),
       OUT(Mastertype, w_diff)) {
  Acctype flat[8192], image[8192], grad[8192], total[256];
  SIMD for (i32 i = 0; i < 8192; ++i) image[i] = grad[i] = 0;
  FOR_EACH_GROUP(p, planes) {
    for (i32 t = 0; t < taps; ++t) total[t] = 0;
    for (i64 n = 0; n < images; ++n) {
      const Index source = (n * (planes / multiplier) + p / multiplier) * in_h;
      for (i32 top = 0; top < out_h; top += strip) {
        const i32 count = out_h - top < strip ? out_h - top : strip, seen = count + rows - strip;
        const i32 above = top * stride_h - pad_h, below = above + seen * stride_h;
        const i32 begin = above > 0 ? above : 0, end = below < in_h ? below : in_h;
        const Index from = (source + begin) * in_w;
        SIMD for (Index i = 0; i < (end - begin) * in_w; ++i) flat[i] = LOAD(MItype, x, from + i);
        depthwise_spread(flat, image, above, seen, in_h, in_w, stride_h, stride_w, pad_w, rows,
                         pitch);
        const Index of = ((n * planes + p) * out_h + top) * out_w;
        SIMD for (Index i = 0; i < count * out_w; ++i) flat[i] = LOAD(MOtype, y_diff, of + i);
        for (i32 j = 0; j < count; ++j) {
          SIMD for (Index i = 0; i < out_w; ++i) grad[j * pitch + i] = flat[j * out_w + i];
        }
        // An earlier strip may have been longer.
        SIMD for (Index k = 0; k < 64; ++k) grad[count * pitch + k] = 0;
        for (i32 t = 0; t < taps; ++t) {
          const Index at = LOAD(i32, table, t);
          Acctype sum[64], part = 0;
          SIMD for (Index k = 0; k < 64; ++k) sum[k] = 0;
          for (Index i = 0; i < count * pitch; i += 64) {
            SIMD for (Index k = 0; k < 64; ++k) sum[k] += grad[i + k] * image[at + i + k];
          }
          SIMD_SUM(part)
          for (Index k = 0; k < 64; ++k) part += sum[k];
          total[t] += part;
        }
      }
    }
    for (i32 t = 0; t < taps; ++t) {
      const Index at = p * taps + t;
      STORE(Mastertype, w_diff, at, LOAD(Mastertype, w_diff, at) + total[t]);
    }
  }
}
