//! types: float
// x and y are [outer, channels, inner]; y = exp(x - max) / sum over channels. In place allowed. The
// exponential is computed twice and not stored, so that a narrow y is rounded only once.
KERNEL(softmax_forward_rows, ARG(i64, outer), ARG(i64, channels), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, outer) {
    const Index at = r * channels;
    Acctype top = LOWEST;
    SIMD_MAX(top)
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, at + c);
      top = v > top ? v : top;
    }
    Acctype sum = 0;
    SIMD_SUM(sum)
    for (Index c = 0; c < channels; ++c) sum += EXP(LOAD(MItype, x, at + c) - top);
    SIMD
    for (Index c = 0; c < channels; ++c) {
      STORE(MOtype, y, at + c, EXP(LOAD(MItype, x, at + c) - top) / sum);
    }
  }
}

KERNEL(softmax_forward, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), IN(MItype, x),
       OUT(MOtype, y)) {
  FOR_EACH_ROW(o, outer, s, inner) {
    const Index at = o * channels * inner + s;
    Acctype top = LOWEST, sum = 0;
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, at + c * inner);
      top = v > top ? v : top;
    }
    for (Index c = 0; c < channels; ++c) sum += EXP(LOAD(MItype, x, at + c * inner) - top);
    for (Index c = 0; c < channels; ++c) {
      STORE(MOtype, y, at + c * inner, EXP(LOAD(MItype, x, at + c * inner) - top) / sum);
    }
  }
}

KERNEL(softmax_backward_rows, ARG(i64, outer), ARG(i64, channels), IN(MOtype, y),
       IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(r, outer) {
    const Index at = r * channels;
    Acctype dot = 0;
    SIMD_SUM(dot)
    for (Index c = 0; c < channels; ++c) {
      dot += LOAD(MOtype, y, at + c) * LOAD(MOtype, y_diff, at + c);
    }
    SIMD
    for (Index c = 0; c < channels; ++c) {
      const Acctype d = LOAD(MOtype, y_diff, at + c) - dot;
      STORE(MItype, x_diff, at + c, d * LOAD(MOtype, y, at + c));
    }
  }
}

KERNEL(softmax_backward, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner), IN(MOtype, y),
       IN(MOtype, y_diff), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(o, outer, s, inner) {
    const Index at = o * channels * inner + s;
    Acctype dot = 0;
    for (Index c = 0; c < channels; ++c) {
      dot += LOAD(MOtype, y, at + c * inner) * LOAD(MOtype, y_diff, at + c * inner);
    }
    for (Index c = 0; c < channels; ++c) {
      const Acctype d = LOAD(MOtype, y_diff, at + c * inner) - dot;
      STORE(MItype, x_diff, at + c * inner, d * LOAD(MOtype, y, at + c * inner));
    }
  }
}
