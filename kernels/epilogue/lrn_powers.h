// Replaces `count` scales by their powers, for processors: each loop has one formula.
DEVICE_FN void lrn_powers(Acctype* scales, Index count, i32 quarters, Acctype beta) {
  if (quarters == 1) {
    SIMD for (Index i = 0; i < count; ++i) scales[i] = lrn_power(scales[i], 1, beta);
  } else if (quarters == 2) {
    SIMD for (Index i = 0; i < count; ++i) scales[i] = lrn_power(scales[i], 2, beta);
  } else if (quarters == 3) {
    SIMD for (Index i = 0; i < count; ++i) scales[i] = lrn_power(scales[i], 3, beta);
  } else if (quarters == 4) {
    SIMD for (Index i = 0; i < count; ++i) scales[i] = lrn_power(scales[i], 4, beta);
  } else {
    SIMD for (Index i = 0; i < count; ++i) scales[i] = lrn_power(scales[i], 0, beta);
  }
}
