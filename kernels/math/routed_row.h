// The row of a slot, or the pair of a row, which is stored as float: -1 for one that is not in use,
// -2 for an invalid one, which no routing gives.
DEVICE_FN i64 routed_row(float v, i64 rows) {
  return v >= 0.0f && v < (float)rows ? (i64)v : v == -1.0f ? -1 : -2;
}
