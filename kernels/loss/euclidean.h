//! types: float
//! runs: host euclidean_forward
// Term t is the sum of (a - b)^2 over the elements [t part, (t + 1) part).
KERNEL(euclidean_forward, ARG(i64, terms), ARG(i64, part), ARG(i64, n), IN(MItype, a),
       IN(MItype, b), OUT(Mastertype, sums)) {
  FOR_EACH_GROUP(t, terms) {
    const Index begin = t * part, end = begin + part < n ? begin + part : n;
    Acctype sum = 0;
    SIMD_SUM(sum)
    for (Index i = begin; i < end; ++i) {
      const Acctype d = LOAD(MItype, a, i) - LOAD(MItype, b, i);
      sum += d * d;
    }
    STORE(Mastertype, sums, t, sum);
    STORE(Mastertype, sums, terms + t, 1);
  }
}

KERNEL(euclidean_backward, ARG(i64, n), IN(MItype, a), IN(MItype, b), IN(Mastertype, loss_diff),
       OUT(MItype, diff), ARG(Acctype, factor)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(MItype, a, i) - LOAD(MItype, b, i);
    STORE(MItype, diff, i, d * factor * LOAD(Mastertype, loss_diff, 0));
  }
}
