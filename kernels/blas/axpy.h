//! types: float
// y = a x + b, where row r of x, b and y has the factor a[r]. y may be b.
KERNEL(axpy_forward, ARG(i64, rows), ARG(i64, columns), IN(MItype, a), IN(MItype, x),
       IN(MItype, b), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index at = r * columns + c;
    STORE(MOtype, y, at, LOAD(MItype, a, r) * LOAD(MItype, x, at) + LOAD(MItype, b, at));
  }
}

// x_diff = a y_diff.
KERNEL(axpy_backward, ARG(i64, rows), ARG(i64, columns), IN(MItype, a), IN(MOtype, y_diff),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index at = r * columns + c;
    STORE(MItype, x_diff, at, LOAD(MItype, a, r) * LOAD(MOtype, y_diff, at));
  }
}
