typedef u16 storage_q16;
typedef i64 acc_q16;
typedef Requant scale_q16;
#define lowest_q16 (-((i64)1 << 62))
DEVICE_FN i64 load_q16(GLOBAL const u16* p, i64 i, i32 zero) { return (i64)p[i] - zero; }
DEVICE_FN void store_q16(GLOBAL u16* p, i64 i, i32 zero, i64 v) {
  const i64 code = v + zero;
  p[i] = (u16)(code < 0 ? 0 : code > 65535 ? 65535 : code);
}
DEVICE_FN i64 mul_q16(i64 v, Requant s) { return requantize_i64(v, s.multiplier, s.shift); }
// v is a code - zero point.
DEVICE_FN i64 rescale_q16(i64 v, Requant s) {
  return requantize_i32((i32)v, s.multiplier, s.shift);
}
#define from_real_q16 code_from_real
#ifdef SPAN
SPAN_BY_ELEMENTS(q16)
#endif
