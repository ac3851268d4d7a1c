//! types: float
// y = a + b; y may be one of them.
SPAN_KERNEL(add, ARG(i64, n), IN(MItype, a), IN(MItype, b), OUT(MOtype, y)) {
  MAP2(n, MOtype, y, MItype, a, v, MItype, b, w, v + w)
}
