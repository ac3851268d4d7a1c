#include "dialect/matrix.h"
// Products of floats in the tiles of matrix.h. ELEMENT_BYTES is that of operands: 2 (half, or
// bfloat16 if BFLOAT is 1) or 4 (float). Sums are float.
//
// A float is the sum of two numbers that matrix units multiply (TF32: 11 bits of mantissa): `high`,
// rounded, and `low`, the rest. Of the four products the one of both low parts is left out; it is
// below 2^-22 of the whole. An infinite operand yields NaN, because its low part is NaN.
#if ELEMENT_BYTES == 4
// f [4] becomes the high parts.
DEVICE_FN void split_floats(u32* f, u32* low) {
  UNROLL for (i32 i = 0; i < 4; ++i) {
    const u32 high = (f[i] + 0x1000u) & 0xffffe000u;
    low[i] = as_u32(as_f32(f[i]) - as_f32(high));
    f[i] = high;
  }
}
#endif
#if MATRIX_UNITS
#if ELEMENT_BYTES == 4
#define FLOAT_PRODUCT_ "m16n8k8.row.col.f32.tf32.tf32.f32"
#elif BFLOAT
#define FLOAT_PRODUCT_ "m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define FLOAT_PRODUCT_ "m16n8k16.row.col.f32.f16.f16.f32"
#endif
// sum += the products of 32 bytes of A and B.
DEVICE_FN void multiply_parts(float* sum, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned." FLOAT_PRODUCT_
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#if ELEMENT_BYTES == 4
// Matrix units cut off digits when they add to a sum, which long sums of float would show: they add
// only the products of FLOAT_STEPS steps, and the result is added as elsewhere. Products of other
// columns stand between those of one, because each waits for the one before.
#define FLOAT_STEPS 2
#define MULTIPLY_FLOATS(sums, columns, i, a, low_a, b, low_b)                            \
  {                                                                                      \
    float part_[columns][4];                                                             \
    UNROLL for (i32 j_ = 0; j_ < (columns); ++j_) {                                      \
      UNROLL for (i32 e_ = 0; e_ < 4; ++e_) part_[j_][e_] = 0;                           \
    }                                                                                    \
    UNROLL for (i32 k_ = 0; k_ < FLOAT_STEPS; ++k_) {                                    \
      UNROLL for (i32 j_ = 0; j_ < (columns); ++j_) {                                    \
        multiply_parts(part_[j_], (low_a)[k_][i], (b)[k_][j_ / 2] + j_ % 2 * 2);         \
      }                                                                                  \
      UNROLL for (i32 j_ = 0; j_ < (columns); ++j_) {                                    \
        multiply_parts(part_[j_], (a)[k_][i], (low_b)[k_][j_ / 2] + j_ % 2 * 2);         \
      }                                                                                  \
      UNROLL for (i32 j_ = 0; j_ < (columns); ++j_) {                                    \
        multiply_parts(part_[j_], (a)[k_][i], (b)[k_][j_ / 2] + j_ % 2 * 2);             \
      }                                                                                  \
    }                                                                                    \
    UNROLL for (i32 j_ = 0; j_ < (columns); ++j_) {                                      \
      UNROLL for (i32 e_ = 0; e_ < 4; ++e_) (sums)[j_][e_] += part_[j_][e_];             \
    }                                                                                    \
  }
#endif
#else
DEVICE_FN float local_float(LOCAL_PTR const u8* p) {
#if ELEMENT_BYTES == 4
  return *(LOCAL_PTR const float*)p;
#elif BFLOAT
  return as_f32((u32)*(LOCAL_PTR const u16*)p << 16);
#elif defined(__OPENCL_VERSION__)
  return vload_half(0, (LOCAL_PTR const half*)p);
#else
  return half_to_float((const u16*)p, 0);
#endif
}
DEVICE_FN float tile_float(LOCAL_PTR const u8* tile, i32 row, i32 chunk, i32 byte) {
  return local_float(tile + TILE_AT(row, chunk + (byte >> 4)) + (byte & 15));
}
#define MULTIPLY_FLOATS(sums, columns, a, tile_a, b, tile_b, lane)                       \
  for (i32 e_ = 0; e_ < 4 * (columns); ++e_) {                                           \
    const i32 row_ = (a)[0] + (lane) / 4 + e_ % 4 / 2 * 8;                               \
    const i32 column_ = (b)[e_ / 8][e_ / 4 % 2 * 2] + (lane) % 4 * 2 + e_ % 2;           \
    for (i32 i_ = 0; i_ < 32; i_ += ELEMENT_BYTES) {                                     \
      (sums)[e_ / 4][e_ % 4] += A_FLOAT(tile_a, row_, (a)[1], i_) *                      \
                                tile_float(tile_b, column_, (b)[e_ / 8][1], i_);         \
    }                                                                                    \
  }
#endif
