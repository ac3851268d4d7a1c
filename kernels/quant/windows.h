//! types: device
//! tests: library
#include "epilogue/residual_code.h"
#include "math/requantize_fast.h"
// A convolution of codes with channels last in which every channel is a group: y [images,
// out_height, out_width, channels] from x [images, height, width, channels] and weights [kernel_h,
// kernel_w, channels]. An item computes LANES channels of a position, 4 or 1, which it reads at
// once; LANES divides the number of channels. Padding is a code, repeated in 4 bytes. See
// caffe/library/quant_arguments.hpp. Defines: LANES, CODE_BYTES, SLOPE, RESIDUAL (1: the sum with a
// residual follows).
#if CODE_BYTES == 2
#define Sum i64
#define MASK 65535
#else
#define Sum i32
#define MASK 255
#endif
#if LANES * CODE_BYTES == 8
#define Codes u64
#elif LANES * CODE_BYTES == 4
#define Codes u32
#elif LANES * CODE_BYTES == 2
#define Codes u16
#else
#define Codes u8
#endif
#define CODES_AT(p, i) (*(GLOBAL const Codes*)BYTES_AT(p, i))
#define CODE(codes, i) ((Sum)((codes) >> (i) * 8 * CODE_BYTES & MASK))

KERNEL(code_windows, ARG(i64, positions), FOLD(i32, channels), ARG(i32, height), ARG(i32, width),
       FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       ARG(i32, stride_h), ARG(i32, stride_w), ARG(i32, pad_h), ARG(i32, pad_w),
       ARG(i32, dilation_h), ARG(i32, dilation_w), ARG(i32, y_row), ARG(u32, padding),
       ARG(i32, low), ARG(i32, high), ARG(i32, weight_zero), IN(MItype, x), IN(MItype, weights),
       IN(i64, bias), IN(i32, multiplier), IN(i32, shift), IN(i32, negative_multiplier),
       IN(i32, negative_shift), IN(MOtype, residual), ARG(i32, factor), ARG(i32, residual_factor),
       ARG(i32, sum_shift), ARG(i32, sum_low), ARG(i32, sum_high), ARG(i32, relu),
       ARG(Requant, rescale), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, positions, lane, channels / LANES) {
    const Index line = r / out_width, image = line / out_height;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    const i32 c0 = (i32)lane * LANES;
    const Codes outside = (Codes)((u64)padding << 32 | padding);
    Sum sum[LANES];
    UNROLL for (i32 i = 0; i < LANES; ++i) sum[i] = 0;
    for (i32 kh = 0; kh < kernel_h; ++kh) {
      for (i32 kw = 0; kw < kernel_w; ++kw) {
        const i32 h = h0 + kh * dilation_h, w = w0 + kw * dilation_w;
        const i32 inside = h >= 0 && h < height && w >= 0 && w < width;
        const i64 from = (((i64)image * height + h) * width + w) * channels + c0;
        const Codes v = inside ? CODES_AT(x, from) : outside;
        const Codes factors = CODES_AT(weights, (kh * kernel_w + kw) * channels + c0);
        UNROLL for (i32 i = 0; i < LANES; ++i) {
          sum[i] += CODE(v, i) * (CODE(factors, i) - weight_zero);
        }
      }
    }
    UNROLL for (i32 i = 0; i < LANES; ++i) {
      const i32 c = c0 + i;
      const i32 m = LOAD(i32, multiplier, c), n = LOAD(i32, shift, c);
#if SLOPE
      const i64 q = requantize_slope((i64)sum[i] + LOAD(i64, bias, c), m, n,
                                     LOAD(i32, negative_multiplier, c),
                                     LOAD(i32, negative_shift, c));
#elif CODE_BYTES == 2
      const i64 q = requantize_wide_sum(sum[i] + LOAD(i64, bias, c), m, n);
#else
      const i32 q = requantize_sum((i32)((u32)sum[i] + (u32)LOAD(i64, bias, c)), m, n);
#endif
      const i64 at = (i64)r * y_row + c, own = q < low ? low : q > high ? high : q;
#if RESIDUAL
      STORE(MOtype, y, at,
            (Acctype)residual_code(own, LOAD(MOtype, residual, at), factor, residual_factor,
                                   sum_shift, sum_low, sum_high, relu, rescale.multiplier,
                                   rescale.shift));
#else
      STORE(MOtype, y, at, (Acctype)own);
#endif
    }
  }
}
#undef Sum
#undef MASK
#undef Codes
#undef CODES_AT
#undef CODE
