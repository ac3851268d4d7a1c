//! types: float quantized
// y = x by rows of `columns` elements; row r begins at r * x_step and r * y_step: concatenation and
// slicing. For quantized types rescale is s_x / s_y.
KERNEL(copy_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, x_step), ARG(i64, y_step),
       IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MOtype, y, r * y_step + c, RESCALE(LOAD(MItype, x, r * x_step + c), rescale));
  }
}
