//! types: float
// Terms are [2, count]: values, then weights. Part p of either holds `size` terms, the last fewer.
KERNEL(term_sum_parts, ARG(i64, parts), ARG(i64, size), ARG(i64, count), IN(Mastertype, terms),
       OUT(Mastertype, sums)) {
  FOR_EACH_GROUP(g, 2 * parts) {
    const Index part = g < parts ? g : g - parts;
    const Index base = g < parts ? 0 : count;
    const Index begin = part * size, end = begin + size < count ? begin + size : count;
    Acctype sum = 0;
    SIMD_SUM(sum)
    for (Index i = begin; i < end; ++i) sum += LOAD(Mastertype, terms, base + i);
    STORE(Mastertype, sums, g, sum);
  }
}

// y = sum of values / max(1, fixed, or the sum of weights if fixed is 0). One work item.
KERNEL(term_sum_divide, ARG(i64, n), ARG(i64, count), ARG(Acctype, fixed), IN(Mastertype, terms),
       OUT(MOtype, y), OUT(Mastertype, divisor)) {
  FOR_EACH_GROUP(i, n) {
    Acctype sum = 0, weight = 0;
    SIMD_SUM(sum)
    for (Index t = 0; t < count; ++t) sum += LOAD(Mastertype, terms, t);
    SIMD_SUM(weight)
    for (Index t = 0; t < count; ++t) weight += LOAD(Mastertype, terms, count + t);
    const Acctype by = fixed > 0 ? fixed : weight;
    const Acctype at_least_1 = by > 1 ? by : 1;
    STORE(MOtype, y, 0, sum / at_least_1);
    STORE(Mastertype, divisor, 0, at_least_1);
  }
}
