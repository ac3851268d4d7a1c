typedef float storage_f32;
typedef float acc_f32;
typedef float scale_f32;
#define master_f32 f32
#define lowest_f32 (-3.402823466e+38f)
#define real_f32(x) x##f
DEVICE_FN float load_f32(GLOBAL const float* p, i64 i, i32 zero) { return p[i]; }
DEVICE_FN void store_f32(GLOBAL float* p, i64 i, i32 zero, float v) { p[i] = v; }
DEVICE_FN float mul_f32(float v, float s) { return v * s; }
DEVICE_FN float sqrt_f32(float v) { return SQRT_F32(v); }
#define rescale_f32(v, s) (v)
#define from_real_f32(v, low, high) (v)
#define round_to_odd_f32(v) (v)
// Rounds half away from zero. Adding 0.5 and truncating would round 0.49999997 up.
DEVICE_FN i32 round_f32(float v) {
  const i32 whole = (i32)v;
  const float rest = v - (float)whole;
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}
#ifdef SPAN
DEVICE_FN void load_whole_span_f32(float* v, GLOBAL const float* p, i64 i, i32 zero) {
#if SPAN == 8
  const float4 a = *(GLOBAL const float4*)(p + i), b = *(GLOBAL const float4*)(p + i + 4);
  const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  FOR_SPAN(k) v[k] = values[k];
#else
  FOR_SPAN(k) v[k] = p[i + k];
#endif
}
DEVICE_FN void load_span_f32(float* v, GLOBAL const float* p, i64 i, i64 n, i32 zero) {
  if (SPAN == 8 && SPAN_IS_WHOLE(p, i, n)) {
    load_whole_span_f32(v, p, i, zero);
    return;
  }
  FOR_SPAN(k) v[k] = i + k < n ? p[i + k] : 0;
}
DEVICE_FN void store_span_f32(GLOBAL float* p, i64 i, i64 n, i32 zero, const float* v) {
#if SPAN == 8
  if (SPAN_IS_WHOLE(p, i, n)) {
    *(GLOBAL float4*)(p + i) = make_float4(v[0], v[1], v[2], v[3]);
    *(GLOBAL float4*)(p + i + 4) = make_float4(v[4], v[5], v[6], v[7]);
    return;
  }
#endif
  FOR_SPAN(k) if (i + k < n) p[i + k] = v[k];
}
#endif
