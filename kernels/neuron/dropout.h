//! types: float
// y = x * scale if the element's random word is at least threshold, else 0. One Philox call serves
// four planes: element i uses word i / quads of counter i % quads. In place allowed.
KERNEL(dropout_mask, ARG(i64, n), ARG(i64, quads), IN(MItype, x), OUT(MOtype, y),
       IN(i32, counters), ARG(u64, seed), ARG(u32, threshold), ARG(Acctype, scale)) {
  FOR_EACH(q, quads) {
    const u64 counter = ((u64)(u32)LOAD(i32, counters, 0) << 32) + (u64)q;
    const Random4 random = philox(counter, seed);
    const Acctype a = LOAD(MItype, x, q);
    STORE(MOtype, y, q, random.v0 >= threshold ? a * scale : 0);
    if (q + quads < n) {
      const Acctype b = LOAD(MItype, x, q + quads);
      STORE(MOtype, y, q + quads, random.v1 >= threshold ? b * scale : 0);
    }
    if (q + 2 * quads < n) {
      const Acctype c = LOAD(MItype, x, q + 2 * quads);
      STORE(MOtype, y, q + 2 * quads, random.v2 >= threshold ? c * scale : 0);
    }
    if (q + 3 * quads < n) {
      const Acctype d = LOAD(MItype, x, q + 3 * quads);
      STORE(MOtype, y, q + 3 * quads, random.v3 >= threshold ? d * scale : 0);
    }
  }
}

KERNEL(dropout_multiply, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), ARG(Acctype, scale)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, LOAD(MItype, x, i) * scale);
}
