//! types: float
//! tests: library
// Between the orders of arrays of convolutions: weights [out, channels, taps], and [out, taps,
// padded] with padded - channels zeros behind the channels of a tap.

// y [rows, to] = x [rows, from]: the columns beyond `from` are 0, those beyond `to` are left out.
KERNEL(pad_channels, ARG(i64, rows), ARG(i64, from), ARG(i64, to), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW (r, rows, c, to) {
    STORE(MOtype, y, r * to + c, c < from ? LOAD(MItype, x, r * from + c) : 0);
  }
}

// y [out, taps, padded] = x [out, channels, taps]; rows = out taps.
KERNEL(filter_channels_last, ARG(i64, rows), ARG(i64, channels), ARG(i64, taps), ARG(i64, padded),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW (r, rows, c, padded) {
    const i64 o = r / taps, tap = r - o * taps;
    STORE(MOtype, y, r * padded + c,
          c < channels ? LOAD(MItype, x, (o * channels + c) * taps + tap) : 0);
  }
}

// y [out, channels, taps] += x [out, taps, padded]; rows = out channels.
KERNEL(add_filter_gradient, ARG(i64, rows), ARG(i64, channels), ARG(i64, taps), ARG(i64, padded),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW (r, rows, tap, taps) {
    const i64 o = r / channels, c = r - o * channels, at = r * taps + tap;
    STORE(MOtype, y, at, LOAD(MOtype, y, at) + LOAD(MItype, x, (o * taps + tap) * padded + c));
  }
}
