//! types: float
// y = a + b. In place allowed.
KERNEL(add, ARG(i64, n), IN(MItype, a), IN(MItype, b), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, LOAD(MItype, a, i) + LOAD(MItype, b, i));
}
