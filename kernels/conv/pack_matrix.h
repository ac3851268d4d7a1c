//! types: device
//! tests: library
#include "math/packed_source.h"
// Weights for matrix_convolution.h: y [out, packed] from x [out, channels, kernel_h, kernel_w].
KERNEL(pack_weights, ARG(i64, out), ARG(i32, packed), ARG(i32, channels), ARG(i32, padded),
       ARG(i32, fold_h), ARG(i32, fold_w), ARG(i32, kernel_h), ARG(i32, kernel_w),
       ARG(i32, folded_h), ARG(i32, folded_w), ARG(i32, group_out), IN(MItype, x),
       OUT(MItype, y)) {
  FOR_EACH_ROW(o, out, e, packed) {
    const i64 from = packed_source(o, (i32)e, channels, padded, fold_h, fold_w, kernel_h, kernel_w,
                                   folded_h, folded_w, group_out);
    STORE(MItype, y, (i64)o * packed + e, from >= 0 ? LOAD(MItype, x, from) : 0);
  }
}

// The same for gradients: y [in, packed] from x [out, group_in, kernel_h, kernel_w]. Element e =
// (h kernel_w + w) group_out + o of a row is the weight of output o of the row's group, whose
// window is turned by 180 degrees.
KERNEL(pack_transposed, ARG(i64, in), ARG(i32, packed), ARG(i32, group_in), ARG(i32, group_out),
       ARG(i32, kernel_h), ARG(i32, kernel_w), IN(MItype, x), OUT(MItype, y)) {
  FOR_EACH_ROW(i, in, e, packed) {
    const i32 taps = kernel_h * kernel_w, tap = (i32)e / group_out;
    const i64 o = (i64)(i / group_in) * group_out + (e - (Index)tap * group_out);
    const i64 from = (o * group_in + i % group_in) * taps + taps - 1 - tap;
    STORE(MItype, y, (i64)i * packed + e, tap < taps ? LOAD(MItype, x, from) : 0);
  }
}
