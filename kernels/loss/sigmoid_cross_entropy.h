//! types: float
// Term t is the sum over those of the elements [t part, (t + 1) part) that are not ignored, and
// their number.
KERNEL(sigmoid_cross_entropy_forward, ARG(i64, terms), ARG(i64, part), ARG(i64, n),
       ARG(i32, ignoring), ARG(i32, ignored), IN(MItype, x), IN(f32, targets),
       OUT(Mastertype, sums)) {
  FOR_EACH_GROUP(t, terms) {
    const Index begin = t * part, end = begin + part < n ? begin + part : n;
    Acctype sum = 0, count = 0;
    SIMD_SUM2(sum, count)
    for (Index i = begin; i < end; ++i) {
      const Acctype v = LOAD(MItype, x, i);
      const float target = LOAD(f32, targets, i);
      const i32 counts = !(ignoring && label_of(target) == ignored);
      const Acctype loss = (v > 0 ? v : 0) - v * target + LOG(1 + EXP(v > 0 ? -v : v));
      sum += counts ? loss : 0;
      count += (Acctype)counts;
    }
    STORE(Mastertype, sums, t, sum);
    STORE(Mastertype, sums, terms + t, count);
  }
}

KERNEL(sigmoid_cross_entropy_backward, ARG(i64, n), ARG(i32, ignoring), ARG(i32, ignored),
       IN(MItype, x), IN(f32, targets), IN(Mastertype, loss_diff), IN(Mastertype, divisor),
       OUT(MItype, diff)) {
  FOR_EACH(i, n) {
    const Acctype v = LOAD(MItype, x, i);
    const float target = LOAD(f32, targets, i);
    const Acctype e = EXP(v > 0 ? -v : v);
    const Acctype d = (v > 0 ? 1 : e) / (1 + e) - target;
    const Acctype factor = LOAD(Mastertype, loss_diff, 0) / LOAD(Mastertype, divisor, 0);
    STORE(MItype, diff, i, ignoring && label_of(target) == ignored ? 0 : d * factor);
  }
}
