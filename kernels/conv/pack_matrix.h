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
