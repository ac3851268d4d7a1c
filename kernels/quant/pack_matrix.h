//! types: quantized
//! tests: library
//! runs: device
#include "math/packed_source.h"
#include "math/word_order.h"
// Weights for matrix_product.h: y [out, packed] in bytes, from codes x [out, channels, kernel_h,
// kernel_w], in the order of math/packed_source.h. A weight is the code minus `center`, its zero
// point. Codes of 16 bits are two planes of bytes for each 32 weights, the low ones first.
KERNEL(pack_matrix, ARG(i64, out), ARG(i32, packed), ARG(i32, code_bytes), ARG(i32, center),
       ARG(i32, channels), ARG(i32, padded), ARG(i32, fold_h), ARG(i32, fold_w),
       ARG(i32, kernel_h), ARG(i32, kernel_w), ARG(i32, folded_h), ARG(i32, folded_w),
       ARG(i32, group_out), IN(MItype, x), OUT(q8, y)) {
  FOR_EACH_ROW(o, out, at, packed) {
    const i32 byte = (i32)at & 63;
    const i32 e = code_bytes == 1 ? (i32)at : ((i32)at >> 6) * 32 + WORD_AT(byte & 31);
    const i64 from = packed_source(o, e, channels, padded, fold_h, fold_w, kernel_h, kernel_w,
                                   folded_h, folded_w, group_out);
    const i32 weight = from >= 0 ? (i32)LOAD(MItype, x, from) - center : 0;
    STORE(q8, y, (i64)o * packed + at, (code_bytes == 1 || byte < 32 ? weight : weight >> 8) & 255);
  }
}
