//! types: float master
// y = x + b, y = s x, y = s x + b with values per channel. Element (r, i) belongs to channel r %
// channels in "rows", to channel i in "columns". MItype is the type of x and y, MOtype that of the
// first parameter. In place allowed.
SPAN_KERNEL(add_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
            IN(MOtype, b), OUT(MItype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MItype, y, MItype, x, v, v + LOAD(MOtype, b, c))
}

KERNEL(add_columns, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(MOtype, b),
       OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype v = LOAD(MItype, x, r * columns + i);
    STORE(MItype, y, r * columns + i, v + LOAD(MOtype, b, i));
  }
}

SPAN_KERNEL(scale_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
            IN(MOtype, s), OUT(MItype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MItype, y, MItype, x, v, v * LOAD(MOtype, s, c))
}

KERNEL(scale_columns, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(MOtype, s),
       OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype v = LOAD(MItype, x, r * columns + i);
    STORE(MItype, y, r * columns + i, v * LOAD(MOtype, s, i));
  }
}

SPAN_KERNEL(scale_bias_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
            IN(MOtype, s), IN(Mastertype, b), OUT(MItype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MItype, y, MItype, x, v,
            v * LOAD(MOtype, s, c) + LOAD(Mastertype, b, c))
}

KERNEL(scale_bias_columns, ARG(i64, rows), ARG(i64, columns), IN(MItype, x), IN(MOtype, s),
       IN(Mastertype, b), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    const Acctype v = LOAD(MItype, x, r * columns + i);
    STORE(MItype, y, r * columns + i, v * LOAD(MOtype, s, i) + LOAD(Mastertype, b, i));
  }
}
