//! types: master
//! tests: library
//! runs: host
// Rows of half or bfloat16 to float and back, for libraries that multiply in float only. Row r of
// the source begins at r * source_stride.
KERNEL(widen_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, source_stride),
       ARG(i64, target_stride), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MOtype, y, r * target_stride + c, LOAD(MItype, x, r * source_stride + c));
  }
}

KERNEL(narrow_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, source_stride),
       ARG(i64, target_stride), IN(MOtype, x), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MItype, y, r * target_stride + c, LOAD(MOtype, x, r * source_stride + c));
  }
}
