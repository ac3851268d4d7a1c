//! types: float
// y is computed from the first `inputs` (2 to 4) of a, b, c, d; it may be one of them.
#include "epilogue/sum.h"

KERNEL(eltwise_sum, ARG(i64, n), ARG(i32, inputs), IN(MItype, a), IN(MItype, b), IN(MItype, c),
       IN(MItype, d), ARG(Acctype, factor_a), ARG(Acctype, factor_b), ARG(Acctype, factor_c),
       ARG(Acctype, factor_d), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    Acctype v = sum_value(LOAD(MItype, a, i) * factor_a, LOAD(MItype, b, i), factor_b);
    if (inputs > 2) v = sum_value(v, LOAD(MItype, c, i), factor_c);
    if (inputs > 3) v = sum_value(v, LOAD(MItype, d, i), factor_d);
    STORE(MOtype, y, i, v);
  }
}

SPAN_KERNEL(eltwise_sum_of_two, ARG(i64, n), IN(MItype, a), IN(MItype, b), ARG(Acctype, factor_a),
            ARG(Acctype, factor_b), OUT(MOtype, y)) {
  MAP2(n, MOtype, y, MItype, a, v, MItype, b, w, sum_value(v * factor_a, w, factor_b))
}

KERNEL(eltwise_product, ARG(i64, n), ARG(i32, inputs), IN(MItype, a), IN(MItype, b), IN(MItype, c),
       IN(MItype, d), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    Acctype v = LOAD(MItype, a, i) * LOAD(MItype, b, i);
    if (inputs > 2) v *= LOAD(MItype, c, i);
    if (inputs > 3) v *= LOAD(MItype, d, i);
    STORE(MOtype, y, i, v);
  }
}

KERNEL(eltwise_product_backward, ARG(i64, n), IN(MItype, x), IN(MOtype, y), IN(MOtype, y_diff),
       OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    const Acctype others = LOAD(MOtype, y, i) / LOAD(MItype, x, i);
    STORE(MItype, x_diff, i, others * LOAD(MOtype, y_diff, i));
  }
}

SPAN_KERNEL(eltwise_scale, ARG(i64, n), IN(MItype, x), ARG(Acctype, factor), OUT(MOtype, y)) {
  MAP1(n, MOtype, y, MItype, x, v, v * factor)
}

// mask is the index of the bottom that y comes from; b if both are equal.
KERNEL(eltwise_max, ARG(i64, n), IN(MItype, a), IN(MItype, b), OUT(MOtype, y), OUT(i32, mask)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, a, i), w = LOAD(MItype, b, i);
    const i32 first = v > w;
    STORE(MOtype, y, i, first ? v : w);
    STORE(i32, mask, i, first ? 0 : 1);
  }
}

// Compares bottom `number` with the largest so far, which is kept if they are equal.
KERNEL(eltwise_max_more, ARG(i64, n), ARG(i32, number), IN(MItype, x), OUT(MOtype, y),
       OUT(i32, mask)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i), w = LOAD(MOtype, y, i);
    const i32 larger = v > w;
    STORE(MOtype, y, i, larger ? v : w);
    STORE(i32, mask, i, larger ? number : LOAD(i32, mask, i));
  }
}

KERNEL(eltwise_max_backward, ARG(i64, n), ARG(i32, number), IN(i32, mask), IN(MOtype, y_diff),
       OUT(MItype, x_diff)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MOtype, y_diff, i);
    STORE(MItype, x_diff, i, LOAD(i32, mask, i) == number ? d : 0);
  }
}
