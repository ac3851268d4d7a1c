typedef u16 storage_f16;
typedef float acc_f16;
typedef float scale_f16;
#define master_f16 f32
#define lowest_f16 (-3.402823466e+38f)
#define real_f16(x) x##f
DEVICE_FN float load_f16(GLOBAL const u16* p, i64 i, i32 zero) { return half_to_float(p, i); }
DEVICE_FN void store_f16(GLOBAL u16* p, i64 i, i32 zero, float v) { float_to_half(p, i, v); }
DEVICE_FN float mul_f16(float v, float s) { return v * s; }
#define exp_f16 exp_f32
#define log_f16 log_f32
#define pow_f16 pow_f32
#define expm1_f16 expm1_f32
#define tanh_f16 tanh_f32
#define sqrt_f16 sqrt_f32
#define rescale_f16(v, s) (v)
#define from_real_f16(v, low, high) CAT(round_to_odd_, Dtype)(v)
#ifdef SPAN
DEVICE_FN void load_whole_span_f16(float* v, GLOBAL const u16* p, i64 i, i32 zero) {
#if SPAN == 8
  halves_to_floats(v, p + i);
#else
  FOR_SPAN(k) v[k] = half_to_float(p, i + k);
#endif
}
DEVICE_FN void load_span_f16(float* v, GLOBAL const u16* p, i64 i, i64 n, i32 zero) {
  if (SPAN == 8 && SPAN_IS_WHOLE(p, i, n)) {
    load_whole_span_f16(v, p, i, zero);
    return;
  }
  FOR_SPAN(k) v[k] = i + k < n ? half_to_float(p, i + k) : 0;
}
DEVICE_FN void store_span_f16(GLOBAL u16* p, i64 i, i64 n, i32 zero, const float* v) {
#if SPAN == 8
  if (SPAN_IS_WHOLE(p, i, n)) {
    floats_to_halves(p + i, v);
    return;
  }
#endif
  FOR_SPAN(k) if (i + k < n) float_to_half(p, i + k, v[k]);
}
#endif
