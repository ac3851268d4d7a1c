//! types: float
// `weights` is the number of weight arrays: 1 means inside weights, 2 also outside weights. Term t
// is the sum over the elements [t part, (t + 1) part).
KERNEL(smooth_l1_forward, ARG(i64, terms), ARG(i64, part), ARG(i64, n), ARG(i32, weights),
       ARG(Acctype, sigma2), IN(MItype, a), IN(MItype, b), IN(f32, inside), IN(f32, outside),
       OUT(Mastertype, sums)) {
  FOR_EACH_GROUP(t, terms) {
    const Index begin = t * part, end = begin + part < n ? begin + part : n;
    Acctype sum = 0;
    SIMD_SUM(sum)
    for (Index i = begin; i < end; ++i) {
      const Acctype u = weights > 0 ? LOAD(f32, inside, i) : 1.0f;
      const Acctype v = weights > 1 ? LOAD(f32, outside, i) : 1.0f;
      const Acctype d = u * (LOAD(MItype, a, i) - LOAD(MItype, b, i)), size = d < 0 ? -d : d;
      const Acctype near = REAL(0.5) * sigma2 * d * d, far = size - REAL(0.5) / sigma2;
      sum += v * (size * sigma2 < 1 ? near : far);
    }
    STORE(Mastertype, sums, t, sum);
    STORE(Mastertype, sums, terms + t, 1);
  }
}

KERNEL(smooth_l1_backward, ARG(i64, n), ARG(i32, weights), ARG(Acctype, sigma2), IN(MItype, a),
       IN(MItype, b), IN(f32, inside), IN(f32, outside), IN(Mastertype, loss_diff), OUT(MItype, diff),
       ARG(Acctype, factor)) {
  FOR_EACH(i, n) {
    const Acctype u = weights > 0 ? LOAD(f32, inside, i) : 1.0f;
    const Acctype v = weights > 1 ? LOAD(f32, outside, i) : 1.0f;
    const Acctype d = u * (LOAD(MItype, a, i) - LOAD(MItype, b, i)), size = d < 0 ? -d : d;
    const Acctype far = (Acctype)((d > 0) - (d < 0));
    const Acctype slope = size * sigma2 < 1 ? sigma2 * d : far;
    STORE(MItype, diff, i, u * v * slope * factor * LOAD(Mastertype, loss_diff, 0));
  }
}
