//! types: float quantized
//! runs: device max_pool_backward_blocks
// Maxima and their gradients in planes, for usual windows; see max.h.

// Windows of 2x2 that neither overlap nor leave the image: constant extents vectorise.
KERNEL(max_pool_forward_tiles, ARG(i64, planes), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), IN(MItype, x), OUT(MOtype, y), OUT(f32, mask)) {
  FOR_EACH_FOUR(r, planes * out_height, plane, out_height, out_width) {
    const i32 c = (i32)COLUMN_OF_FOUR, start = 2 * (i32)(r - plane * out_height) * width;
    const i32 place = start + 2 * c;
    const Index at = plane * height * width + start + 2 * c;
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
  FOR_EACH_FOUR(r, planes * out_height, plane, out_height, out_width) {
    const i32 c = (i32)COLUMN_OF_FOUR, start = 2 * (i32)(r - plane * out_height) * width;
    const i32 place = start + 2 * c;
    const Index at = plane * height * width + start + 2 * c;
    const i32 from = (i32)LOAD(f32, mask, r * out_width + c) - place;
    const Acctype d = LOAD(MOtype, y_diff, r * out_width + c);
    STORE(MItype, x_diff, at, from == 0 ? d : 0);
    STORE(MItype, x_diff, at + 1, from == 1 ? d : 0);
    STORE(MItype, x_diff, at + width, from == width ? d : 0);
    STORE(MItype, x_diff, at + width + 1, from == width + 1 ? d : 0);
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
