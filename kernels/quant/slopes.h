//! types: quantized
// y = x times one factor if x > 0, else times that of the channel c: a multiplier, negative where
// the factor is, and a right shift. In place allowed.
SPAN_KERNEL(slope_codes_rows, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels),
            ARG(Requant, positive), IN(MItype, x), IN(i32, multiplier), IN(i32, shift),
            OUT(MOtype, y)) {
  MAP_ROWS1(rows, columns, channels, c, MOtype, y, MItype, x, v,
            (Acctype)requantize_slope(v, positive.multiplier, positive.shift,
                                      LOAD(i32, multiplier, c), LOAD(i32, shift, c)))
}

// Rows of all channels.
KERNEL(slope_codes_columns, ARG(i64, rows), ARG(i64, channels), ARG(Requant, positive),
       IN(MItype, x), IN(i32, multiplier), IN(i32, shift), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, channels) {
    const Index at = r * channels + c;
    STORE(MOtype, y, at, (Acctype)requantize_slope(LOAD(MItype, x, at), positive.multiplier,
                                                   positive.shift, LOAD(i32, multiplier, c),
                                                   LOAD(i32, shift, c)));
  }
}
