// A type of a user on OpenCL and CUDA. The builder puts its word for NAME, u8, u16 or u32 for CODE,
// the number of bytes for BYTES, a mask of its bits for MASK, 1 for HAS_SCALE if each blob has a
// scale, 2^zero, and 1 for IS_PACKED if two codes lie in a byte. Before this text it defines
// to_float_NAME and from_float_NAME.
typedef CODE storage_NAME;
typedef float acc_NAME;
typedef float scale_NAME;
#define master_NAME f32
#define lowest_NAME (-3.402823466e+38f)
#define real_NAME(x) x##f
#if HAS_SCALE
DEVICE_FN float value_NAME(u32 code, i32 zero) {
  return to_float_NAME(code) * as_f32((u32)(127 + zero) << 23);
}
DEVICE_FN u32 code_NAME(float v, i32 zero) {
  return (u32)from_float_NAME(v * as_f32((u32)(127 - zero) << 23));
}
#else
#define value_NAME(code, zero) to_float_NAME(code)
#define code_NAME(v, zero) from_float_NAME(v)
#endif
#if IS_PACKED
DEVICE_FN float load_NAME(GLOBAL const CODE* p, i64 i, i32 zero) {
  return value_NAME((u32)p[i >> 1] >> ((u32)i & 1u) * 4u & MASK, zero);
}
// Other items write the other codes of the word.
DEVICE_FN void store_NAME(GLOBAL CODE* p, i64 i, i32 zero, float v) {
  const u64 at = (u64)(p + (i >> 1));
  const u32 shift = ((u32)at & 3u) * 8u + ((u32)i & 1u) * 4u;
  volatile GLOBAL u32* word = (volatile GLOBAL u32*)(at & ~(u64)3);
  CLEAR_BITS(word, 15u << shift);
  SET_BITS(word, code_NAME(v, zero) << shift);
}
#else
DEVICE_FN float load_NAME(GLOBAL const CODE* p, i64 i, i32 zero) {
  return value_NAME((u32)p[i] & MASK, zero);
}
DEVICE_FN void store_NAME(GLOBAL CODE* p, i64 i, i32 zero, float v) {
  p[i] = (CODE)code_NAME(v, zero);
}
#endif
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
#if IS_PACKED
// Eight codes are a word.
#define SPAN_IS_WHOLE_NAME(p, i, n) \
  ((i) + SPAN <= (n) && ((i) & 1) == 0 && ((u64)((p) + ((i) >> 1)) & 3) == 0)
DEVICE_FN void load_whole_span_NAME(float* v, GLOBAL const CODE* p, i64 i, i32 zero) {
  FOR_SPAN(k) v[k] = load_NAME(p, i + k, zero);
}
DEVICE_FN void load_span_NAME(float* v, GLOBAL const CODE* p, i64 i, i64 n, i32 zero) {
#if SPAN == 8
  if (SPAN_IS_WHOLE_NAME(p, i, n)) {
    const u32 word = *(GLOBAL const u32*)(p + (i >> 1));
    FOR_SPAN(k) v[k] = value_NAME(word >> 4 * k & MASK, zero);
    return;
  }
#endif
  FOR_SPAN(k) v[k] = i + k < n ? load_NAME(p, i + k, zero) : 0;
}
DEVICE_FN void store_span_NAME(GLOBAL CODE* p, i64 i, i64 n, i32 zero, const float* v) {
#if SPAN == 8
  if (SPAN_IS_WHOLE_NAME(p, i, n)) {
    u32 word = 0;
    FOR_SPAN(k) word |= (u32)code_NAME(v[k], zero) << 4 * k;
    *(GLOBAL u32*)(p + (i >> 1)) = word;
    return;
  }
#endif
  FOR_SPAN(k) if (i + k < n) store_NAME(p, i + k, zero, v[k]);
}
#else
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
      v[k] = value_NAME(word >> (k % IN_WORD_NAME) * 8 * BYTES & MASK, zero);
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
    FOR_SPAN(k) words[k / IN_WORD_NAME] |= (u32)code_NAME(v[k], zero)
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
#endif
