//! types: float master
// y = gain x. MItype is the type of x and y, MOtype that of the gains, one for each channel. Row r
// of [rows, columns] belongs to channel r % channels. In place allowed. The gradient of x is the
// same product.
KERNEL(channel_gain, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
       IN(MOtype, gain), OUT(MItype, y)) {
  FOR_EACH_ROW(r, rows, i, columns) {
    STORE(MItype, y, r * columns + i,
          LOAD(MItype, x, r * columns + i) * LOAD(MOtype, gain, r % (Index)channels));
  }
}
