//! types: float
//! tests: library
// y += the sum of `parts` consecutive arrays of n elements in x.
KERNEL(accumulate_parts, ARG(i64, n), ARG(i64, parts), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) {
    Acctype sum = 0;
    for (i64 p = 0; p < parts; ++p) sum += LOAD(MItype, x, p * n + i);
    STORE(MOtype, y, i, LOAD(MOtype, y, i) + sum);
  }
}
