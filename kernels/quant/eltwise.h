//! types: quantized
// Bottoms with scales of their own, element by element. Sums: see epilogue/code_sum.h.
#include "epilogue/code_sum.h"

DEVICE_FN i64 larger_code(i64 v, i64 w) { return v > w ? v : w; }

SPAN_KERNEL(sum_codes_of_two, ARG(i64, n), IN(MItype, a), IN(MItype, b), ARG(i32, factor_a),
            ARG(i32, factor_b), ARG(i32, shift), OUT(MOtype, y)) {
  MAP2(n, MOtype, y, MItype, a, v, MItype, b, w,
       code_of_sum((i64)v * factor_a + (i64)w * factor_b, shift, -(1 << 20)))
}

// More than two bottoms: the sum so far, from 0 if `first`; then the result.
KERNEL(sum_codes_part, ARG(i64, n), ARG(i32, first), IN(MItype, x), ARG(i32, factor),
       OUT(i64, sum)) {
  FOR_EACH(i, n) {
    const i64 before = first ? 0 : LOAD(i64, sum, i);
    STORE(i64, sum, i, before + (i64)LOAD(MItype, x, i) * factor);
  }
}

KERNEL(sum_codes_finish, ARG(i64, n), ARG(i32, shift), IN(i64, sum), OUT(MOtype, y)) {
  FOR_EACH(i, n) { STORE(MOtype, y, i, code_of_sum(LOAD(i64, sum, i), shift, -(1 << 20))); }
}

// The larger one of two rescaled values. y may be a.
SPAN_KERNEL(max_codes, ARG(i64, n), IN(MItype, a), IN(MItype, b), ARG(Scaletype, scale_a),
            ARG(Scaletype, scale_b), OUT(MOtype, y)) {
  MAP2(n, MOtype, y, MItype, a, v, MItype, b, w,
       (Acctype)larger_code(SCALE(v, scale_a), SCALE(w, scale_b)))
}

// The product of two or three bottoms; c is read if `three`.
KERNEL(product_codes, ARG(i64, n), ARG(i32, three), IN(MItype, a), IN(MItype, b), IN(MItype, c),
       ARG(Requant, scale), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    i64 v = (i64)LOAD(MItype, a, i) * LOAD(MItype, b, i);
    if (three) v *= LOAD(MItype, c, i);
    STORE(MOtype, y, i, (Acctype)requantize_i64(v, scale.multiplier, scale.shift));
  }
}
