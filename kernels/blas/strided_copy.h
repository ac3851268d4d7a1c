//! types: float quantized
// Copies an array of any number of axes from one set of strides to another. The innermost axis has
// `columns` elements. `table` holds extent, stride in x and stride in y of each of the `axes` axes
// outside it, outermost first; `rows` is the product of their extents. `lanes` work items share a
// row. Quantized x and y have the same zero point.
KERNEL(strided_copy, ARG(i64, rows), ARG(i64, columns), ARG(i64, lanes), ARG(i32, axes),
       IN(i64, table), ARG(i64, x_stride), ARG(i64, y_stride), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_GROUP(g, rows * lanes) {
    const Index lane = g % lanes;
    Index rest = g / lanes, from = 0, to = 0;
    for (i32 axis = axes - 1; axis >= 0; --axis) {
      const Index extent = (Index)LOAD(i64, table, 3 * axis), outside = rest / extent;
      const Index index = rest - outside * extent;
      from += index * (Index)LOAD(i64, table, 3 * axis + 1);
      to += index * (Index)LOAD(i64, table, 3 * axis + 2);
      rest = outside;
    }
    if (x_stride == 1 && y_stride == 1) {
      SIMD FOR_LANES(c, lane, lanes, columns) STORE(MOtype, y, to + c, LOAD(MItype, x, from + c));
    } else {
      SIMD FOR_LANES(c, lane, lanes, columns) {
        STORE(MOtype, y, to + c * y_stride, LOAD(MItype, x, from + c * x_stride));
      }
    }
  }
}
