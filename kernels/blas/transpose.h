//! types: float quantized
//! runs: host
//! tests: library
// y[b, c, r] = x[b, r, c] for x [batch, rows, columns], for processors; transpose_tiles.h has the
// devices' kernel. Rows begin at multiples of x_row in x and of y_row in y. An item is a block of
// 16 rows and `span` columns, a multiple of 16.
KERNEL(transpose, ARG(i64, batch), ARG(i64, rows), ARG(i64, columns), ARG(i64, x_row),
       ARG(i64, y_row), ARG(i64, span), IN(MItype, x), OUT(MOtype, y)) {
  const Index row_blocks = (rows + 15) / 16, spans = (columns + span - 1) / span;
  FOR_EACH_GROUP(g, batch * row_blocks * spans) {
    const Index b = g / (row_blocks * spans), rest = g - b * row_blocks * spans;
    const Index r0 = rest / spans * 16, first = rest % spans * span;
    const Index last = first + span < columns ? first + span : columns;
    const Index height = rows - r0 < 16 ? rows - r0 : 16;
    for (Index c0 = first; c0 < last; c0 += 16) {
      const Index width = last - c0 < 16 ? last - c0 : 16;
      const Index from = (b * rows + r0) * x_row + c0, to = (b * columns + c0) * y_row + r0;
      Acctype tile[256];
      if (height == 16) {
        for (Index r = 0; r < 16; ++r) {
          SIMD for (Index c = 0; c < width; ++c) {
            tile[c * 16 + r] = LOAD(MItype, x, from + r * x_row + c);
          }
        }
        for (Index c = 0; c < width; ++c) {
          SIMD for (Index r = 0; r < 16; ++r) STORE(MOtype, y, to + c * y_row + r, tile[c * 16 + r]);
        }
      } else {
        for (Index c = 0; c < width; ++c) {
          for (Index r = 0; r < height; ++r) {
            STORE(MOtype, y, to + c * y_row + r, LOAD(MItype, x, from + r * x_row + c));
          }
        }
      }
    }
  }
}
