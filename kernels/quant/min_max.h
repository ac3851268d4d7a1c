//! types: float
//! tests: net
//! runs: host min_max_chunks
//! runs: device min_max_apart
// The smallest and largest element, in two launches: one triple (min, max, lost) for each chunk of
// x, then all triples merged into range, which also keeps its old content. Infinities and NaN are
// left out; lost is 1 if there were any. If x has no finite element, min > max.
KERNEL(min_max_chunks, ARG(i64, chunks), IN(MItype, x), OUT(Mastertype, parts), ARG(i64, n),
       ARG(i64, chunk)) {
  FOR_EACH_GROUP(g, chunks) {
    const Index first = (Index)(g * chunk), last = (Index)(first + chunk < n ? first + chunk : n);
    Acctype below = LOWEST, high = LOWEST, lost = 0;
    SIMD_MAX3(below, high, lost)
    for (Index i = first; i < last; ++i) {
      const Acctype v = LOAD(MItype, x, i);
      const int finite = v >= LOWEST && v <= -LOWEST;
      const Acctype down = finite ? -v : LOWEST, up = finite ? v : LOWEST, left = finite ? 0 : 1;
      below = down > below ? down : below;
      high = up > high ? up : high;
      lost = left > lost ? left : lost;
    }
    STORE(Mastertype, parts, 3 * g, -below);
    STORE(Mastertype, parts, 3 * g + 1, high);
    STORE(Mastertype, parts, 3 * g + 2, lost);
  }
}

// The same; a chunk has elements that lie `chunks` apart, so that neighbouring work items read
// neighbouring elements.
KERNEL(min_max_apart, ARG(i64, chunks), IN(MItype, x), OUT(Mastertype, parts), ARG(i64, n),
       ARG(i64, chunk)) {
  FOR_EACH_GROUP(g, chunks) {
    Acctype low = -LOWEST, high = LOWEST, lost = 0;
    for (Index k = 0; k < chunk; ++k) {
      const i64 i = g + k * chunks;
      if (i < n) {
        const Acctype v = LOAD(MItype, x, i);
        const int finite = v >= LOWEST && v <= -LOWEST;
        low = finite && v < low ? v : low;
        high = finite && v > high ? v : high;
        lost = finite ? lost : 1;
      }
    }
    STORE(Mastertype, parts, 3 * g, low);
    STORE(Mastertype, parts, 3 * g + 1, high);
    STORE(Mastertype, parts, 3 * g + 2, lost);
  }
}

KERNEL(min_max_merge, ARG(i64, n), IN(Mastertype, parts), OUT(Mastertype, range),
       ARG(i64, chunks)) {
  FOR_EACH_GROUP(g, n) {
    Acctype low = LOAD(Mastertype, range, 0), high = LOAD(Mastertype, range, 1),
            lost = LOAD(Mastertype, range, 2);
    for (Index i = 0; i < chunks; ++i) {
      const Acctype a = LOAD(Mastertype, parts, 3 * i), b = LOAD(Mastertype, parts, 3 * i + 1),
                    c = LOAD(Mastertype, parts, 3 * i + 2);
      low = a < low ? a : low;
      high = b > high ? b : high;
      lost = c > lost ? c : lost;
    }
    STORE(Mastertype, range, 0, low);
    STORE(Mastertype, range, 1, high);
    STORE(Mastertype, range, 2, lost);
  }
}
