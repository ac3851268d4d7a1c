// Codes with a zero point: LOAD yields code - zero, STORE adds the zero point and saturates.
typedef u8 storage_q8;
typedef i32 acc_q8;
typedef Requant scale_q8;
#define lowest_q8 (-2147483647 - 1)
DEVICE_FN i32 load_q8(GLOBAL const u8* p, i64 i, i32 zero) { return (i32)p[i] - zero; }
DEVICE_FN void store_q8(GLOBAL u8* p, i64 i, i32 zero, i32 v) {
  const i64 code = (i64)v + zero;
  p[i] = (u8)(code < 0 ? 0 : code > 255 ? 255 : code);
}
DEVICE_FN i32 mul_q8(i32 v, Requant s) { return requantize_i32(v, s.multiplier, s.shift); }
#define rescale_q8 mul_q8
#define from_real_q8 code_from_real
#ifdef SPAN
SPAN_BY_ELEMENTS(q8)
#endif
