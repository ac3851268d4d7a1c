// CUDA C through NVRTC, without any header of the toolkit.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#define GLOBAL
#define LOCAL __shared__
#define CONSTANT static __device__ const
#define LOCAL_PTR
// Memory that the launch sizes: LaunchGroups::local_bytes.
#define LOCAL_DYNAMIC(T, name) extern __shared__ __align__(1024) T name[]
#define DEVICE_FN static __device__ __forceinline__
#define KERNEL(name) extern "C" __global__ void name
#define IN(T, p) const STORAGE(T)* p, const i32 p##_zero
#define OUT(T, p) STORAGE(T)* p, const i32 p##_zero
#define ARG(T, v) const T v
#define FOLD(T, v) const T v
#define AT(p, i) (i)
#define BARRIER __syncthreads()
#define AXIS_OF(v, d) ((d) == 0 ? v.x : (d) == 1 ? v.y : v.z)
#define GLOBAL_ID(d) ((i64)AXIS_OF(blockIdx, d) * AXIS_OF(blockDim, d) + AXIS_OF(threadIdx, d))
#define LOCAL_ID(d) ((i32)AXIS_OF(threadIdx, d))
#define GROUP_ID(d) ((i64)AXIS_OF(blockIdx, d))
#define FOR_EACH(i, n) for (Index i = (Index)GLOBAL_ID(0); i < (n); i = (n))
#define FOR_EACH_GROUP FOR_EACH
#define SPAN_KERNEL KERNEL
#define BLOCK_KERNEL KERNEL
#define FOR_EACH_ROW(r, rows, c, cols)                                                   \
  for (Index id_ = (Index)GLOBAL_ID(0), r = id_ / (Index)(cols), c = id_ - r * (Index)(cols); \
       id_ < (rows) * (cols); id_ = (rows) * (cols))
#define FOR_LANES(i, lane, lanes, n) for (Index i = (lane); i < (n); i += (lanes))
#define SIMD
#define SIMD_SUM(v)
#define SIMD_SUM2(v, w)
#define SIMD_MAX(v)
#define SIMD_MAX3(v, w, u)
#define UNROLL _Pragma("unroll")
// Atomic, for types with several codes in a word (types/custom.h).
#define CLEAR_BITS(word, bits) atomicAnd((u32*)(word), ~(bits))
#define SET_BITS(word, bits) atomicOr((u32*)(word), bits)
#define MAX_PAIRS(v, w) __vmaxu2(v, w)
#ifndef Index
#define Index i64
#endif
#define SQRT_F32(v) __fsqrt_rn(v)
#define EXP_F64(v) exp(v)
#define LOG_F64(v) log(v)
#define POW_F64(v, w) pow(v, w)
#define EXPM1_F64(v) expm1(v)
#define TANH_F64(v) tanh(v)
#define SQRT_F64(v) sqrt(v)
DEVICE_FN float as_f32(u32 v) { return __uint_as_float(v); }
DEVICE_FN u32 as_u32(float v) { return __float_as_uint(v); }
DEVICE_FN float half_to_float(const u16* p, i64 i) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(p[i]));
  return f;
}
DEVICE_FN void float_to_half(u16* p, i64 i, float v) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  p[i] = h;
}
DEVICE_FN float2 floats_of_pair(u32 pair) {
  float2 v;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(v.x), "=f"(v.y)
      : "r"(pair));
  return v;
}
// Eight elements at a multiple of 16 bytes.
DEVICE_FN void halves_to_floats(float* v, const u16* p) {
  const uint4 q = *(const uint4*)p;
  const u32 words[4] = {q.x, q.y, q.z, q.w};
  _Pragma("unroll") for (i32 k = 0; k < 8; ++k) {
    const u16 h = (u16)(words[k / 2] >> k % 2 * 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(v[k]) : "h"(h));
  }
}
DEVICE_FN void floats_to_halves(u16* p, const float* v) {
  u32 words[4];
  _Pragma("unroll") for (i32 k = 0; k < 4; ++k) {
    u16 low, high;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(v[2 * k]));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(v[2 * k + 1]));
    words[k] = (u32)low | (u32)high << 16;
  }
  *(uint4*)p = make_uint4(words[0], words[1], words[2], words[3]);
}
