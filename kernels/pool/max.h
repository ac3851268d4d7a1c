//! types: float quantized
//! runs: host max_pool_forward_rows max_pool_backward_rows
//! runs: device max_pool_forward_tiles max_pool_backward_tiles max_pool_backward_blocks
#include "math/pool_windows.h"
// x is [planes, height, width], y and mask are [planes, out_height, out_width]. mask is the index h
// width + w in the plane of the element that y comes from, or -1 for a window that is empty or
// holds only NaN.
KERNEL(max_pool_forward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w), FOLD(i32, stride_h),
       FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), IN(MItype, x), OUT(MOtype, y),
       OUT(f32, mask)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 h0 = (i32)(r - plane * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)c * stride_w - pad_w;
    const i32 h1 = h0 + kernel_h < height ? h0 + kernel_h : height;
    const i32 w1 = w0 + kernel_w < width ? w0 + kernel_w : width;
    const Index base = plane * height * width;
    Acctype best = LOWEST;
    i32 place = -1;
    for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h) {
      for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w) {
        const Acctype v = LOAD(MItype, x, base + h * width + w);
        place = v > best ? h * width + w : place;
        best = v > best ? v : best;
      }
    }
    STORE(MOtype, y, r * out_width + c, best);
    STORE(f32, mask, r * out_width + c, (float)place);
  }
}

#if FLOAT_KIND
// Gathers: x_diff is the sum over the windows whose maximum is this element.
KERNEL(max_pool_backward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w), FOLD(i32, stride_h),
       FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w), IN(MOtype, y_diff), IN(f32, mask),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index plane = r / height;
    const i32 row = (i32)(r - plane * height), h = row + pad_h, w = (i32)c + pad_w;
    const i32 h0 = first_window(h, kernel_h, stride_h), h1 = end_window(h, stride_h, out_height);
    const i32 w0 = first_window(w, kernel_w, stride_w), w1 = end_window(w, stride_w, out_width);
    const Index base = plane * out_height * out_width;
    const float place = (float)(row * width + (i32)c);
    Acctype sum = 0;
    for (i32 oh = h0; oh < h1; ++oh) {
      for (i32 ow = w0; ow < w1; ++ow) {
        const Index at = base + oh * out_width + ow;
        sum += LOAD(f32, mask, at) == place ? LOAD(MOtype, y_diff, at) : 0;
      }
    }
    STORE(MItype, x_diff, r * width + c, sum);
  }
}
#endif

// Absent for larger strides: PoCL compiles every kernel of a program before it stores the program,
// and unrolls these loops for minutes.
#if FLOAT_KIND && (!defined(stride_h) || stride_h * stride_w <= 16)
// The same for devices: an item computes a block of stride_h x stride_w elements, at most 16, to
// which the same windows belong. Blocks begin where windows do.
KERNEL(max_pool_backward_blocks, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w),
       ARG(i32, blocks_h), ARG(i32, blocks_w), IN(MOtype, y_diff), IN(f32, mask),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * blocks_h, c, blocks_w) {
    const Index plane = r / blocks_h;
    const i32 bh = (i32)(r - plane * blocks_h), bw = (i32)c;
    const i32 top = bh * stride_h - pad_h, left = bw * stride_w - pad_w;
    const i32 oh0 = bh > (kernel_h - 1) / stride_h ? bh - (kernel_h - 1) / stride_h : 0;
    const i32 ow0 = bw > (kernel_w - 1) / stride_w ? bw - (kernel_w - 1) / stride_w : 0;
    const i32 oh1 = bh < out_height ? bh + 1 : out_height;
    const i32 ow1 = bw < out_width ? bw + 1 : out_width;
    const Index base = plane * out_height * out_width;
    Acctype sums[16];
    UNROLL for (i32 e = 0; e < stride_h * stride_w; ++e) sums[e] = 0;
    for (i32 oh = oh0; oh < oh1; ++oh) {
      for (i32 ow = ow0; ow < ow1; ++ow) {
        const Index at = base + oh * out_width + ow;
        const float place = LOAD(f32, mask, at);
        const Acctype d = LOAD(MOtype, y_diff, at);
        UNROLL for (i32 i = 0; i < stride_h; ++i) {
          UNROLL for (i32 j = 0; j < stride_w; ++j) {
            const float own = (float)((top + i) * width + left + j);
            sums[i * stride_w + j] += place == own ? d : 0;
          }
        }
      }
    }
    const Index to = plane * height * width;
    UNROLL for (i32 i = 0; i < stride_h; ++i) {
      UNROLL for (i32 j = 0; j < stride_w; ++j) {
        const i32 h = top + i, w = left + j;
        const i32 inside = h >= 0 && h < height && w >= 0 && w < width;
        if (inside) STORE(MItype, x_diff, to + h * width + w, sums[i * stride_w + j]);
      }
    }
  }
}
#endif

// Windows of 2x2 that neither overlap nor leave the image: constant extents vectorise.
KERNEL(max_pool_forward_tiles, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), IN(MItype, x), OUT(MOtype, y), OUT(f32, mask)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 place = 2 * (i32)(r - plane * out_height) * width + 2 * (i32)c;
    const Index at = plane * height * width + place;
    const Acctype a = LOAD(MItype, x, at), b = LOAD(MItype, x, at + 1);
    const Acctype d = LOAD(MItype, x, at + width), e = LOAD(MItype, x, at + width + 1);
    Acctype best = LOWEST;
    i32 from = -1;
    from = a > best ? place : from;
    best = a > best ? a : best;
    from = b > best ? place + 1 : from;
    best = b > best ? b : best;
    from = d > best ? place + width : from;
    best = d > best ? d : best;
    from = e > best ? place + width + 1 : from;
    best = e > best ? e : best;
    STORE(MOtype, y, r * out_width + c, best);
    STORE(f32, mask, r * out_width + c, (float)from);
  }
}

#if FLOAT_KIND
// Every element belongs to exactly one window, which writes it.
KERNEL(max_pool_backward_tiles, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), IN(MOtype, y_diff), IN(f32, mask),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 place = 2 * (i32)(r - plane * out_height) * width + 2 * (i32)c;
    const Index at = plane * height * width + place;
    const i32 from = (i32)LOAD(f32, mask, r * out_width + c) - place;
    const Acctype d = LOAD(MOtype, y_diff, r * out_width + c);
    STORE(MItype, x_diff, at, from == 0 ? d : 0);
    STORE(MItype, x_diff, at + 1, from == 1 ? d : 0);
    STORE(MItype, x_diff, at + width, from == width ? d : 0);
    STORE(MItype, x_diff, at + width + 1, from == width + 1 ? d : 0);
  }
}
#endif

// The same for processors: an item is a row of at least four windows, computed as vectors of four.
// The last four may overlap the ones before.
KERNEL(max_pool_forward_rows, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), IN(MItype, x), OUT(MOtype, y), OUT(f32, mask)) {
  FOR_EACH_GROUP(r, planes * out_height) {
    const Index plane = r / out_height;
    const i32 start = 2 * (i32)(r - plane * out_height) * width;
    const Index from_row = plane * height * width + start;
    for (i32 next = 0; next < out_width; next += 4) {
      const i32 first = next < out_width - 4 ? next : out_width - 4;
      SIMD for (i32 k = 0; k < 4; ++k) {
        const Index at = from_row + 2 * first + 2 * k, to = r * out_width + first + k;
        const i32 place = start + 2 * first + 2 * k;
        const Acctype a = LOAD(MItype, x, at), b = LOAD(MItype, x, at + 1);
        const Acctype d = LOAD(MItype, x, at + width), e = LOAD(MItype, x, at + width + 1);
        Acctype best = LOWEST;
        i32 from = -1;
        from = a > best ? place : from;
        best = a > best ? a : best;
        from = b > best ? place + 1 : from;
        best = b > best ? b : best;
        from = d > best ? place + width : from;
        best = d > best ? d : best;
        from = e > best ? place + width + 1 : from;
        best = e > best ? e : best;
        STORE(MOtype, y, to, best);
        STORE(f32, mask, to, (float)from);
      }
    }
  }
}

#if FLOAT_KIND
KERNEL(max_pool_backward_rows, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), IN(MOtype, y_diff), IN(f32, mask),
       OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, planes * out_height) {
    const Index plane = r / out_height;
    const i32 start = 2 * (i32)(r - plane * out_height) * width;
    const Index to_row = plane * height * width + start;
    for (i32 next = 0; next < out_width; next += 4) {
      const i32 first = next < out_width - 4 ? next : out_width - 4;
      SIMD for (i32 k = 0; k < 4; ++k) {
        const Index at = to_row + 2 * first + 2 * k, of = r * out_width + first + k;
        const i32 from = (i32)LOAD(f32, mask, of) - (start + 2 * first + 2 * k);
        const Acctype d = LOAD(MOtype, y_diff, of);
        STORE(MItype, x_diff, at, from == 0 ? d : 0);
        STORE(MItype, x_diff, at + 1, from == 1 ? d : 0);
        STORE(MItype, x_diff, at + width, from == width ? d : 0);
        STORE(MItype, x_diff, at + width + 1, from == width + 1 ? d : 0);
      }
    }
  }
}
#endif
