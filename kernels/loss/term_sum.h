//! types: float
// Terms are [2, count]: values, then weights. Part p of each has `size` terms, the last part fewer.
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

// y = sum of values / max(1, fixed, or the sum of weights if fixed is 0). `sums` are [2, parts]:
// the terms or partial sums of them. One work item.
// A weight of NaN marks an invalid term, which the divisor does not count. record holds the first
// invalid term of all launches since the host cleared it: 1, its index, its value. While record
// holds one, y is NaN.
KERNEL(term_sum_divide, ARG(i64, n), ARG(i64, parts), ARG(i64, count), ARG(Acctype, fixed),
       IN(Mastertype, sums), IN(Mastertype, terms), OUT(Mastertype, y), OUT(Mastertype, divisor),
       OUT(f32, record)) {
  FOR_EACH_GROUP(i, n) {
    Acctype sum = 0, weight = 0;
    SIMD_SUM(sum)
    for (Index t = 0; t < parts; ++t) sum += LOAD(Mastertype, sums, t);
    SIMD_SUM(weight)
    for (Index t = 0; t < parts; ++t) weight += LOAD(Mastertype, sums, parts + t);
    i32 invalid = LOAD(f32, record, 0) != 0.0f;
    if (weight != weight) {
      Index first = 0;
      weight = 0;
      for (Index t = count - 1; t >= 0; --t) {
        const Acctype w = LOAD(Mastertype, terms, count + t);
        if (w != w) {
          first = t;
        } else {
          weight += w;
        }
      }
      if (!invalid) {
        STORE(f32, record, 0, 1.0f);
        STORE(f32, record, 1, (float)first);
        STORE(f32, record, 2, (float)LOAD(Mastertype, terms, first));
      }
      invalid = 1;
    }
    const Acctype by = fixed > 0 ? fixed : weight;
    const Acctype at_least_1 = by > 1 ? by : 1;
    STORE(Mastertype, y, 0, invalid ? (Acctype)as_f32(0x7fc00000u) : sum / at_least_1);
    STORE(Mastertype, divisor, 0, at_least_1);
  }
}
