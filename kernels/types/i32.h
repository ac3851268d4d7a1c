// Plain integers, for masks, labels and positions: IN(i32, mask).
typedef i32 storage_i32;
DEVICE_FN i32 load_i32(GLOBAL const i32* p, i64 i, i32 zero) { return p[i]; }
DEVICE_FN void store_i32(GLOBAL i32* p, i64 i, i32 zero, i32 v) { p[i] = v; }
// A label, which is stored as float: truncated; the smallest i32 if it does not fit.
DEVICE_FN i32 label_of(float v) {
  return v > -2147483648.0f && v < 2147483648.0f ? (i32)v : -2147483647 - 1;
}
