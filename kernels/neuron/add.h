//! types: float
// y = a + b; y may be one of them.
KERNEL(add, ARG(i64, n), IN(MItype, a), IN(MItype, b), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, LOAD(MItype, a, i) + LOAD(MItype, b, i));
}
