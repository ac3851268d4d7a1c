//! types: float
// y[r] = x[r, index[r]] of x [rows, columns]; NaN for an index that is not a whole number in [0,
// columns), and no gradient then.
KERNEL(pick_forward, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(f32, index),
       OUT(MOtype, y)) {
  FOR_EACH_GROUP(r, rows) {
    const i32 c = class_of(LOAD(f32, index, r), columns, 0, 0);
    STORE(MOtype, y, r, c < 0 ? class_weight(-2) : LOAD(MItype, x, r * columns + c));
  }
}

KERNEL(pick_backward, ARG(i64, rows), ARG(i64, columns), IN(MOtype, y_diff), IN(f32, index),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const i32 c = class_of(LOAD(f32, index, r), columns, 0, 0);
    STORE(MItype, x_diff, r * columns + i, (Index)c == i ? LOAD(MOtype, y_diff, r) : 0);
  }
}

// The first invalid index, for InvalidItem. One work item reads all of them.
KERNEL(pick_check, ARG(i64, n), ARG(i64, rows), ARG(i64, columns), IN(f32, index),
       OUT(f32, record)) {
  FOR_EACH_GROUP(g, n) {
    Index bad = rows;
    for (Index r = rows - 1; r >= 0; --r) {
      bad = class_of(LOAD(f32, index, r), columns, 0, 0) < 0 ? r : bad;
    }
    if (bad < rows && LOAD(f32, record, g) == 0) {
      STORE(f32, record, 0, 1.0f);
      STORE(f32, record, 1, (float)bad);
      STORE(f32, record, 2, LOAD(f32, index, bad));
    }
  }
}
