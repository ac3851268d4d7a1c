// Plain integers, for masks, labels and positions: IN(i32, mask).
typedef i32 storage_i32;
DEVICE_FN i32 load_i32(GLOBAL const i32* p, i64 i, i32 zero) { return p[i]; }
DEVICE_FN void store_i32(GLOBAL i32* p, i64 i, i32 zero, i32 v) { p[i] = v; }
// Truncates a label, which is stored as float; the smallest i32 if it does not fit.
DEVICE_FN i32 label_of(float v) {
  return v > -2147483648.0f && v < 2147483648.0f ? (i32)v : -2147483647 - 1;
}
// The class of a label: -1 if the label is the ignored one, -2 if it is not an integer in [0,
// classes).
DEVICE_FN i32 class_of(float label, i64 classes, i32 ignoring, i32 ignored) {
  const i32 c = label_of(label), whole = (float)c == label;
  const i32 known = whole && c >= 0 && c < classes;
  return whole && ignoring && c == ignored ? -1 : known ? c : -2;
}
// The weight of an item's term in a sum (loss/term_sum.h): 1, or 0 for an ignored label, or NaN for
// an invalid one, whose term is then the label.
DEVICE_FN float class_weight(i32 c) {
  return c >= 0 ? 1.0f : c == -1 ? 0.0f : as_f32(0x7fc00000u);
}
