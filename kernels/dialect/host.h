// C++20 for the CPU. No standard header is included, because this text is compiled once per
// instruction level: an inline function compiled for a high level could be the copy that the linker
// keeps for all levels. range_ is the part of the launch that this thread runs.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long i64;
typedef unsigned long u64;
#define GLOBAL
#define DEVICE_FN static inline __attribute__((always_inline, unused))
#define KERNEL(name, ...)                            \
  static void name(HostRange range_, __VA_ARGS__);   \
  CAFFE_HOST_KERNEL(name)                            \
  static void name(HostRange range_, __VA_ARGS__)
#define SPAN_KERNEL(...) KERNEL(__VA_ARGS__)
// A kernel of blocks is compiled for single elements, and for 256 neighbours at a time: the first
// argument is the number of lanes, of which one is a single element.
#define BLOCK_KERNEL(name, ...)                                                       \
  template <i64 BLOCK> static void name##_of(HostRange range_, __VA_ARGS__);          \
  CAFFE_HOST_BLOCK_KERNEL(name, name##_of)                                            \
  template <i64 BLOCK> static void name##_of(HostRange range_, __VA_ARGS__)
// The value after a pointer: a zero point, or the tables or functions of a user's type
// (types/table.h, types/functions.h).
typedef i32 zero_f32, zero_f16, zero_bf16, zero_f64, zero_q8, zero_q16, zero_i32, zero_i64;
#define IN(T, p) const STORAGE(T)* p, const CAT(zero_, T) p##_zero
#define OUT(T, p) STORAGE(T)* p, const CAT(zero_, T) p##_zero
#define ARG(T, v) const T v
#define FOLD(T, v) const T v
#define AT(p, i) (i)
#define FOR_EACH(i, n) _Pragma("omp simd") for (i64 i = range_.begin; i < range_.end; ++i)
#define FOR_EACH_GROUP(g, n) for (i64 g = range_.begin; g < range_.end; ++g)
#define FOR_EACH_ROW(r, rows, c, cols)              \
  for (i64 r = range_.begin; r < range_.end; ++r)   \
    _Pragma("omp simd") for (i64 c = 0; c < (cols); ++c)
#define FOR_LANES(i, lane, lanes, n) for (i64 i = 0; i < (n); ++i)
// Vectors of four columns, of at least four. The last one may overlap the one before.
#define FOR_EACH_FOUR(r, rows, plane, lines, cols)                                            \
  for (i64 r = range_.begin; r < range_.end; ++r)                                             \
    for (i64 plane = r / (lines), begun_ = 1; begun_; begun_ = 0)                             \
      for (i32 next_ = 0; next_ < (cols); next_ += 4)                                         \
        for (i32 first_ = next_ < (cols) - 4 ? next_ : (cols) - 4, once_ = 1; once_; once_ = 0) \
          _Pragma("omp simd") for (i32 k_ = 0; k_ < 4; ++k_)
#define COLUMN_OF_FOUR (first_ + k_)
#define LANES_OF(n) (BLOCK == 1 ? 1 : (n))
#define HAS_LANES(n) (BLOCK > 1)
#define FOR_EACH_BLOCK(r, rows, c, n)             \
  for (i64 r = range_.begin; r < range_.end; ++r) \
    for (i64 c = 0; c < (n); c += BLOCK)
#define BLOCK_COUNT(c, n) (BLOCK == 1 ? 1 : (n) - (c) < BLOCK ? (n) - (c) : BLOCK)
// Without a loop over a single element, which keeps its arrays in memory.
#define FOR_BLOCK(i, count, statement)                           \
  if constexpr (BLOCK == 1) {                                    \
    constexpr i64 i = 0;                                         \
    statement;                                                   \
  } else {                                                       \
    _Pragma("omp simd") for (i64 i = 0; i < (count); ++i) {      \
      statement;                                                 \
    }                                                            \
  }
#define BLOCK1(i, count, at, TX, x, v, statement)                                       \
  {                                                                                     \
    const Index at_ = (at);                                                             \
    FOR_BLOCK(i, count, const CAT(acc_, TX) v = LOAD(TX, x, at_ + i); statement)        \
  }
#define BLOCK2(i, count, at, TX, x, v, TW, w, u, statement)                             \
  {                                                                                     \
    const Index at_ = (at);                                                             \
    FOR_BLOCK(i, count, const CAT(acc_, TX) v = LOAD(TX, x, at_ + i);                   \
              const CAT(acc_, TW) u = LOAD(TW, w, at_ + i); statement)                  \
  }
#define STORE_BLOCK(i, count, at, T, p, value) FOR_BLOCK(i, count, STORE(T, p, (at) + i, value))
#define MAP1(n, TY, y, TX, x, v, value)        \
  FOR_EACH(i_, n) {                          \
    const CAT(acc_, TX) v = LOAD(TX, x, i_); \
    STORE(TY, y, i_, (value));         \
  }
#define MAP2(n, TY, y, TX, x, v, TW, w, u, value) \
  FOR_EACH(i_, n) {                             \
    const CAT(acc_, TX) v = LOAD(TX, x, i_);    \
    const CAT(acc_, TW) u = LOAD(TW, w, i_);    \
    STORE(TY, y, i_, (value));            \
  }
#define MAP_ROWS1(rows, columns, channels, c, TY, y, TX, x, v, value) \
  FOR_EACH_ROW(r_, rows, i_, columns) {                             \
    const Index c = r_ % (channels), at_ = r_ * (columns) + i_;     \
    const CAT(acc_, TX) v = LOAD(TX, x, at_);                       \
    STORE(TY, y, at_, (value));                               \
  }
#define MAP_ROWS2(rows, columns, channels, c, TY, y, TX, x, v, TW, w, u, value) \
  FOR_EACH_ROW(r_, rows, i_, columns) {                                       \
    const Index c = r_ % (channels), at_ = r_ * (columns) + i_;               \
    const CAT(acc_, TX) v = LOAD(TX, x, at_);                                 \
    const CAT(acc_, TW) u = LOAD(TW, w, at_);                                 \
    STORE(TY, y, at_, (value));                                         \
  }
#define LANES1(lane, lanes, row, n, TX, x, v, statement)    \
  for (i64 i_ = 0; i_ < (n); ++i_) {                  \
    const CAT(acc_, TX) v = LOAD(TX, x, (row) + i_);  \
    statement;                                      \
  }
#define LANES2(lane, lanes, row, n, TX, x, v, TW, w, u, statement) \
  for (i64 i_ = 0; i_ < (n); ++i_) {                         \
    const CAT(acc_, TX) v = LOAD(TX, x, (row) + i_);         \
    const CAT(acc_, TW) u = LOAD(TW, w, (row) + i_);         \
    statement;                                             \
  }
#define CAFFE_PRAGMA(x) _Pragma(#x)
#define SIMD CAFFE_PRAGMA(omp simd)
#define SIMD_SUM(v) CAFFE_PRAGMA(omp simd reduction(+ : v))
#define SIMD_SUM2(v, w) CAFFE_PRAGMA(omp simd reduction(+ : v, w))
#define SIMD_MAX(v) CAFFE_PRAGMA(omp simd reduction(max : v))
#define SIMD_MAX3(v, w, u) CAFFE_PRAGMA(omp simd reduction(max : v, w, u))
#define UNROLL CAFFE_PRAGMA(GCC unroll 8)
typedef i64 Index;
#define SQRT_F32(v) __builtin_sqrtf(v)
#define EXP_F64(v) __builtin_exp(v)
#define LOG_F64(v) __builtin_log(v)
#define POW_F64(v, w) __builtin_pow(v, w)
#define EXPM1_F64(v) __builtin_expm1(v)
#define TANH_F64(v) __builtin_tanh(v)
#define SQRT_F64(v) __builtin_sqrt(v)
DEVICE_FN float as_f32(u32 v) { return __builtin_bit_cast(float, v); }
DEVICE_FN u32 as_u32(float v) { return __builtin_bit_cast(u32, v); }
#ifdef CAFFE_HALF_DECODE
// F16C inside vector functions: GCC 12 vectorises neither _Float16 nor the scalar intrinsics.
extern "C" {
#pragma omp declare simd notinbranch
__attribute__((const)) float CAFFE_HALF_DECODE(u32 bits);
#pragma omp declare simd notinbranch
__attribute__((const)) u32 CAFFE_HALF_ENCODE(float v);
}
DEVICE_FN float half_to_float(const u16* p, i64 i) { return CAFFE_HALF_DECODE(p[i]); }
DEVICE_FN void float_to_half(u16* p, i64 i, float v) { p[i] = (u16)CAFFE_HALF_ENCODE(v); }
#else
DEVICE_FN float half_to_float(const u16* p, i64 i) {
  const u32 bits = p[i], sign = (bits & 0x8000u) << 16, m = bits & 0x7fffu;
  const float subnormal = (float)(i32)m * 5.9604644775390625e-8f;
  const u32 special = 0x7f800000u | (m & 0x3ffu) << 13 | (m > 0x7c00u ? 0x400000u : 0u);
  const u32 normal = (m << 13) + 0x38000000u;
  return as_f32(sign | (m >= 0x7c00u ? special : m < 0x400u ? as_u32(subnormal) : normal));
}
DEVICE_FN void float_to_half(u16* p, i64 i, float v) {
  const u32 bits = as_u32(v), sign = (bits >> 16) & 0x8000u, m = bits & 0x7fffffffu;
  const u32 subnormal = as_u32(as_f32(m) + 0.5f) - 0x3f000000u;
  const u32 normal = (m - 0x38000000u + 0xfffu + ((m >> 13) & 1u)) >> 13;
  const u32 nan = 0x7e00u | ((m >> 13) & 0x1ffu);
  p[i] = (u16)(sign | (m > 0x7f800000u    ? nan
                       : m >= 0x47800000u ? 0x7c00u
                       : m < 0x38800000u  ? subnormal
                                          : normal));
}
#endif
