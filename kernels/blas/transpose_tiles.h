//! types: device
//! tests: library
// y[b, c, r] = x[b, r, c] for x [batch, rows, columns]. Rows begin at multiples of x_row in x and of
// y_row in y. A group of 32 x 8 items moves a tile of 32 x
// 32 through local memory, so that reads and writes are of neighbours.
KERNEL(transpose_tiles, ARG(i64, rows), ARG(i64, columns), ARG(i64, x_row), ARG(i64, y_row),
       ARG(i64, column_tiles), IN(MItype, x), OUT(MOtype, y)) {
  // One element of padding avoids bank conflicts.
  LOCAL Acctype tile[32][33];
  const i32 tx = LOCAL_ID(0), ty = LOCAL_ID(1);
  const i64 from = GROUP_ID(1) * rows * x_row, to = GROUP_ID(1) * columns * y_row;
  const i64 r0 = GROUP_ID(0) / column_tiles * 32, c0 = GROUP_ID(0) % column_tiles * 32;
  for (i32 i = ty; i < 32; i += 8) {
    const i32 inside = r0 + i < rows && c0 + tx < columns;
    if (inside) tile[i][tx] = LOAD(MItype, x, from + (r0 + i) * x_row + c0 + tx);
  }
  BARRIER;
  for (i32 i = ty; i < 32; i += 8) {
    const i32 inside = c0 + i < columns && r0 + tx < rows;
    if (inside) STORE(MOtype, y, to + (c0 + i) * y_row + r0 + tx, tile[tx][i]);
  }
}
