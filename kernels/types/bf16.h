typedef u16 storage_bf16;
typedef float acc_bf16;
typedef float scale_bf16;
#define master_bf16 f32
#define lowest_bf16 (-3.402823466e+38f)
#define real_bf16(x) x##f
DEVICE_FN float load_bf16(GLOBAL const u16* p, i64 i, i32 zero) { return as_f32((u32)p[i] << 16); }
DEVICE_FN u32 bits_of_bf16(float v) {
  const u32 b = as_u32(v), r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return (b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : r;
}
DEVICE_FN void store_bf16(GLOBAL u16* p, i64 i, i32 zero, float v) { p[i] = (u16)bits_of_bf16(v); }
DEVICE_FN float mul_bf16(float v, float s) { return v * s; }
#define exp_bf16 exp_f32
#define log_bf16 log_f32
#define pow_bf16 pow_f32
#define expm1_bf16 expm1_f32
#define tanh_bf16 tanh_f32
#define sqrt_bf16 sqrt_f32
#define rescale_bf16(v, s) (v)
#define from_real_bf16(v, low, high) CAT(round_to_odd_, Dtype)(v)
#ifdef SPAN
DEVICE_FN void load_whole_span_bf16(float* v, GLOBAL const u16* p, i64 i, i32 zero) {
#if SPAN == 8
  const uint4 q = *(GLOBAL const uint4*)(p + i);
  const u32 words[4] = {q.x, q.y, q.z, q.w};
  FOR_SPAN(k) v[k] = as_f32(k % 2 ? words[k / 2] & 0xffff0000u : words[k / 2] << 16);
#else
  FOR_SPAN(k) v[k] = load_bf16(p, i + k, zero);
#endif
}
DEVICE_FN void load_span_bf16(float* v, GLOBAL const u16* p, i64 i, i64 n, i32 zero) {
  if (SPAN == 8 && SPAN_IS_WHOLE(p, i, n)) {
    load_whole_span_bf16(v, p, i, zero);
    return;
  }
  FOR_SPAN(k) v[k] = i + k < n ? load_bf16(p, i + k, zero) : 0;
}
DEVICE_FN void store_span_bf16(GLOBAL u16* p, i64 i, i64 n, i32 zero, const float* v) {
#if SPAN == 8
  if (SPAN_IS_WHOLE(p, i, n)) {
    *(GLOBAL uint4*)(p + i) = make_uint4(
        bits_of_bf16(v[0]) | bits_of_bf16(v[1]) << 16, bits_of_bf16(v[2]) | bits_of_bf16(v[3]) << 16,
        bits_of_bf16(v[4]) | bits_of_bf16(v[5]) << 16, bits_of_bf16(v[6]) | bits_of_bf16(v[7]) << 16);
    return;
  }
#endif
  FOR_SPAN(k) if (i + k < n) store_bf16(p, i + k, zero, v[k]);
}
#endif
