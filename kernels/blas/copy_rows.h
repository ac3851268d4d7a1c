//! types: float quantized
// y = x by rows of `columns` elements, for concatenation and slicing; row r begins at r * x_stride
// in x and at r * y_stride in y. For quantized types rescale is s_x / s_y.
KERNEL(copy_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, x_stride), ARG(i64, y_stride),
       IN(MItype, x), OUT(MOtype, y), ARG(Scaletype, rescale)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MOtype, y, r * y_stride + c, RESCALE(LOAD(MItype, x, r * x_stride + c), rescale));
  }
}
