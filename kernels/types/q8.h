// Codes with a zero point: LOAD yields code - zero, STORE adds the zero point and saturates.
typedef u8 storage_q8;
typedef i32 acc_q8;
typedef Requant scale_q8;
#define lowest_q8 (-2147483647 - 1)
DEVICE_FN i32 load_q8(GLOBAL const u8* p, i64 i, i32 zero) { return (i32)p[i] - zero; }
DEVICE_FN void store_q8(GLOBAL u8* p, i64 i, i32 zero, i32 v) {
  p[i] = (u8)(clamp_i32(v, -zero, 255 - zero) + zero);
}
DEVICE_FN i32 mul_q8(i32 v, Requant s) { return requantize_i32(v, s.multiplier, s.shift); }
#define rescale_q8 mul_q8
#define from_real_q8 code_from_real
#if SPAN == 8
// Eight codes in one access, at a multiple of 8 bytes.
DEVICE_FN void load_span_q8(i32* v, GLOBAL const u8* p, i64 i, i64 n, i32 zero) {
  if (i + SPAN <= n && ((u64)(p + i) & 7) == 0) {
    const u64 codes = *(GLOBAL const u64*)(p + i);
    FOR_SPAN(k) v[k] = (i32)(codes >> 8 * k & 255) - zero;
  } else {
    FOR_SPAN(k) v[k] = i + k < n ? load_q8(p, i + k, zero) : 0;
  }
}
DEVICE_FN void store_span_q8(GLOBAL u8* p, i64 i, i64 n, i32 zero, const i32* v) {
  if (i + SPAN <= n && ((u64)(p + i) & 7) == 0) {
    u64 codes = 0;
    FOR_SPAN(k) {
      codes |= (u64)(clamp_i32(v[k], -zero, 255 - zero) + zero) << 8 * k;
    }
    *(GLOBAL u64*)(p + i) = codes;
  } else {
    FOR_SPAN(k) if (i + k < n) store_q8(p, i + k, zero, v[k]);
  }
}
#elif defined(SPAN)
SPAN_BY_ELEMENTS(q8)
#endif
