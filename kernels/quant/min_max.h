//! types: float
// The smallest and largest element, in two launches: one pair for each chunk of x, then all pairs
// merged into range = (min, max), which keeps what it held before. NaN is left out.
KERNEL(min_max_chunks, ARG(i64, chunks), IN(MItype, x), OUT(MItype, pairs), ARG(i64, n),
       ARG(i64, chunk)) {
  FOR_EACH_GROUP(g, chunks) {
    const Index first = (Index)(g * chunk), last = (Index)(first + chunk < n ? first + chunk : n);
    Acctype low = LOAD(MItype, x, first), high = low;
    for (Index i = first + 1; i < last; ++i) {
      const Acctype v = LOAD(MItype, x, i);
      low = v < low || low != low ? v : low;
      high = v > high || high != high ? v : high;
    }
    STORE(MItype, pairs, 2 * g, low);
    STORE(MItype, pairs, 2 * g + 1, high);
  }
}

KERNEL(min_max_merge, ARG(i64, n), IN(MItype, pairs), OUT(MItype, range), ARG(i64, chunks),
       ARG(i32, fresh)) {
  FOR_EACH_GROUP(g, n) {
    Acctype low = fresh ? LOAD(MItype, pairs, 0) : LOAD(MItype, range, 0);
    Acctype high = fresh ? LOAD(MItype, pairs, 1) : LOAD(MItype, range, 1);
    for (Index i = 0; i < chunks; ++i) {
      const Acctype a = LOAD(MItype, pairs, 2 * i), b = LOAD(MItype, pairs, 2 * i + 1);
      low = a < low || low != low ? a : low;
      high = b > high || high != high ? b : high;
    }
    STORE(MItype, range, 0, low);
    STORE(MItype, range, 1, high);
  }
}
