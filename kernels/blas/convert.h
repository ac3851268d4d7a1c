//! types: master
// Rows of half or bfloat16 to float and back, for libraries that multiply in float only. Row r of
// the source begins at r * source_step.
KERNEL(widen_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, source_step), ARG(i64, target_step),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MOtype, y, r * target_step + c, LOAD(MItype, x, r * source_step + c));
  }
}

KERNEL(narrow_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, source_step), ARG(i64, target_step),
       IN(MOtype, x), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MItype, y, r * target_step + c, LOAD(MOtype, x, r * source_step + c));
  }
}
