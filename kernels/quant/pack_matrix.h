//! types: quantized
//! tests: library
//! runs: device
#include "math/word_order.h"
// Weights for matrix_product.h: y [out, packed] in bytes, from codes x [out, channels, kernel_h,
// kernel_w]. A weight is the code minus `center`, its zero point. Element ((jh folded_w + jw) padded
// + c) of a row belongs to position (jh, jw) of a window of folded_h x folded_w positions, each of
// which holds fold_h x fold_w pixels, as in conv/channels_last.h. Codes of 16 bits are two planes of
// bytes for each 32 weights, the low ones first.
KERNEL(pack_matrix, ARG(i64, out), ARG(i32, packed), ARG(i32, code_bytes), ARG(i32, center),
       ARG(i32, channels), ARG(i32, padded), ARG(i32, fold_h), ARG(i32, fold_w),
       ARG(i32, kernel_h), ARG(i32, kernel_w), ARG(i32, folded_h), ARG(i32, folded_w),
       IN(MItype, x), OUT(q8, y)) {
  FOR_EACH_ROW(o, out, at, packed) {
    const i32 byte = (i32)at & 63;
    const i32 e = code_bytes == 1 ? (i32)at : ((i32)at >> 6) * 32 + WORD_AT(byte & 31);
    const i32 tap = e / padded, c = e - tap * padded;
    const i32 jh = tap / folded_w, jw = tap - jh * folded_w;
    const i32 pixel = c / channels, channel = c - pixel * channels;
    const i32 rh = pixel / fold_w, rw = pixel - rh * fold_w;
    const i32 h = jh * fold_h + rh, w = jw * fold_w + rw;
    const i32 used = jh < folded_h && rh < fold_h && h < kernel_h && w < kernel_w;
    const i64 from = ((i64)o * channels + channel) * kernel_h * kernel_w + h * kernel_w + w;
    const i32 weight = used ? (i32)LOAD(MItype, x, from) - center : 0;
    STORE(q8, y, (i64)o * packed + at, (code_bytes == 1 || byte < 32 ? weight : weight >> 8) & 255);
  }
}
