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
#if SPAN == 8
// Eight codes in two accesses, at a multiple of 16 bytes.
DEVICE_FN void load_span_q16(i64* v, GLOBAL const u16* p, i64 i, i64 n, i32 zero) {
  if (SPAN_IS_WHOLE(p, i, n)) {
    const u64 low = *(GLOBAL const u64*)(p + i), high = *(GLOBAL const u64*)(p + i + 4);
    FOR_SPAN(k) v[k] = (i64)((k < 4 ? low : high) >> k % 4 * 16 & 65535) - zero;
  } else {
    FOR_SPAN(k) v[k] = i + k < n ? load_q16(p, i + k, zero) : 0;
  }
}
DEVICE_FN void store_span_q16(GLOBAL u16* p, i64 i, i64 n, i32 zero, const i64* v) {
  if (SPAN_IS_WHOLE(p, i, n)) {
    u64 codes[2] = {0, 0};
    FOR_SPAN(k) {
      const i64 code = v[k] + zero;
      codes[k / 4] |= (u64)(code < 0 ? 0 : code > 65535 ? 65535 : code) << k % 4 * 16;
    }
    *(GLOBAL u64*)(p + i) = codes[0];
    *(GLOBAL u64*)(p + i + 4) = codes[1];
  } else {
    FOR_SPAN(k) if (i + k < n) store_q16(p, i + k, zero, v[k]);
  }
}
#elif defined(SPAN)
SPAN_BY_ELEMENTS(q16)
#endif
