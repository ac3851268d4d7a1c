// A type of a user on OpenCL and CUDA. The builder puts its word for NAME, u8, u16 or u32 for CODE,
// the number of bytes for BYTES and a mask of its bits for MASK. Before this text it defines
// to_float_NAME and from_float_NAME.
typedef CODE storage_NAME;
typedef float acc_NAME;
typedef float scale_NAME;
#define master_NAME f32
#define lowest_NAME (-3.402823466e+38f)
#define real_NAME(x) x##f
DEVICE_FN float load_NAME(GLOBAL const CODE* p, i64 i, i32 zero) {
  return to_float_NAME((u32)p[i] & MASK);
}
DEVICE_FN void store_NAME(GLOBAL CODE* p, i64 i, i32 zero, float v) {
  p[i] = (CODE)from_float_NAME(v);
}
DEVICE_FN float mul_NAME(float v, float s) { return v * s; }
#define exp_NAME exp_f32
#define log_NAME log_f32
#define pow_NAME pow_f32
#define expm1_NAME expm1_f32
#define tanh_NAME tanh_f32
#define sqrt_NAME sqrt_f32
#define rescale_NAME(v, s) (v)
#define from_real_NAME(v, low, high) CAT(round_to_odd_, Dtype)(v)
#ifdef SPAN
#define IN_WORD_NAME (4 / BYTES)
// An access has up to 16 bytes, and the address is a multiple of them.
#define SPAN_IS_WHOLE_NAME(p, i, n) \
  ((i) + SPAN <= (n) && ((u64)((p) + (i)) & (BYTES == 1 ? 7 : 15)) == 0)
DEVICE_FN void load_whole_span_NAME(float* v, GLOBAL const CODE* p, i64 i, i32 zero) {
  FOR_SPAN(k) v[k] = load_NAME(p, i + k, zero);
}
DEVICE_FN void load_span_NAME(float* v, GLOBAL const CODE* p, i64 i, i64 n, i32 zero) {
#if SPAN == 8
  if (SPAN_IS_WHOLE_NAME(p, i, n)) {
#if BYTES == 1
    const uint2 q = *(GLOBAL const uint2*)(p + i);
    const u32 words[2] = {q.x, q.y};
#elif BYTES == 2
    const uint4 q = *(GLOBAL const uint4*)(p + i);
    const u32 words[4] = {q.x, q.y, q.z, q.w};
#else
    const uint4 q = *(GLOBAL const uint4*)(p + i), r = *(GLOBAL const uint4*)(p + i + 4);
    const u32 words[8] = {q.x, q.y, q.z, q.w, r.x, r.y, r.z, r.w};
#endif
    FOR_SPAN(k) {
      const u32 word = words[k / IN_WORD_NAME];
      v[k] = to_float_NAME(word >> (k % IN_WORD_NAME) * 8 * BYTES & MASK);
    }
    return;
  }
#endif
  FOR_SPAN(k) v[k] = i + k < n ? load_NAME(p, i + k, zero) : 0;
}
DEVICE_FN void store_span_NAME(GLOBAL CODE* p, i64 i, i64 n, i32 zero, const float* v) {
#if SPAN == 8
  if (SPAN_IS_WHOLE_NAME(p, i, n)) {
    u32 words[2 * BYTES] = {0};
    FOR_SPAN(k) words[k / IN_WORD_NAME] |= (u32)from_float_NAME(v[k])
                                                << (k % IN_WORD_NAME) * 8 * BYTES;
#if BYTES == 1
    *(GLOBAL uint2*)(p + i) = make_uint2(words[0], words[1]);
#else
    *(GLOBAL uint4*)(p + i) = make_uint4(words[0], words[1], words[2], words[3]);
#endif
#if BYTES == 4
    *(GLOBAL uint4*)(p + i + 4) = make_uint4(words[4], words[5], words[6], words[7]);
#endif
    return;
  }
#endif
  FOR_SPAN(k) if (i + k < n) store_NAME(p, i + k, zero, v[k]);
}
#endif
