//! types: float
// x_diff [rows, columns] = the sum over the middle axis of y_diff [rows, tiles, columns].
KERNEL(tile_backward, ARG(i64, rows), ARG(i64, columns), ARG(i64, tiles), IN(MOtype, y_diff),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index at = r * tiles * columns + c;
    Acctype sum = 0;
    for (Index t = 0; t < tiles; ++t) sum += LOAD(MOtype, y_diff, at + t * columns);
    STORE(MItype, x_diff, r * columns + c, sum);
  }
}
