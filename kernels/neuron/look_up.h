//! types: quantized
// y = by_code[x] for codes x: any function of one value. The zero points of all arrays are 0. In
// place allowed.
SPAN_KERNEL(look_up, ARG(i64, n), IN(MItype, x), IN(MOtype, by_code), OUT(MOtype, y)) {
  MAP1(n, MOtype, y, MItype, x, v, LOAD(MOtype, by_code, v))
}
