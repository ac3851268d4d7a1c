//! types: device
//! tests: library
// Codes C[i] = requantized op(A[i]) op(B[i]) + bias, row-major; i is the third index of the work
// group. One of A and B is the weights, whose zero point belongs to their pointer. The other is the
// activations, whose zero point is folded into the bias, so that their pointer has 0. See
// caffe/library/quant_arguments.hpp. A group of SIDE x SIDE computes TILE x TILE elements.
// Defines: TRANS_A, TRANS_B (0 or 1), TILE (a multiple of 16; at most 8 SIDE of it are used),
// CHANNEL_ROWS (1: A are the weights), WIDE (1: sums of 64 bits), CODE_BYTES, DOT_BYTES (1: codes
// of 8 bits are multiplied four at a time), GEMM_UNROLL, RESIDUAL (1: the sum with a residual
// follows, whose arguments stand behind it), VALUES (1: C are the real values of the sums), SUMS
// (1: C are the sums, without a bias). low and high are bounds of code - zero point.
#include "dialect/codes.h"
#include "epilogue/residual_code.h"
#include "math/gemm_tile.h"
#if VALUES
#include "math/sum_value.h"
#endif
// Sums of products of 8-bit codes fit 32 bits up to this depth; those of 16-bit codes never do.
#define SLICE 32768
#if CODE_BYTES == 2
#define ADD_PRODUCT(sum, x, y) ((sum) + (i64)(x) * (y))
#define Sum i64
#elif !DOT_BYTES
#define ADD_PRODUCT(sum, x, y) ((sum) + (u32)((x) * (y)))
#define Sum u32
#elif CHANNEL_ROWS
#define ADD_PRODUCT(sum, x, y) ((u32)add_byte_products((i32)(sum), (u32)(y), (u32)(x)))
#define Sum u32
#else
#define ADD_PRODUCT(sum, x, y) ((u32)add_byte_products((i32)(sum), (u32)(x), (u32)(y)))
#define Sum u32
#endif
// An element of the tiles has the codes of TERMS terms of a sum.
#define TERMS (DOT_BYTES ? 4 : 1)

KERNEL(quantized_gemm, ARG(i32, m), ARG(i32, n), ARG(i32, k), ARG(i32, low), ARG(i32, high),
       ARG(i32, lda), ARG(i32, ldb), ARG(i32, ldc), ARG(i64, stride_a), ARG(i64, stride_b),
       ARG(i64, stride_c), IN(MItype, a), IN(MItype, b), IN(i64, bias), IN(i32, multiplier),
       IN(i32, shift), IN(i32, negative_multiplier), IN(i32, negative_shift), IN(MOtype, residual),
       ARG(i32, factor), ARG(i32, residual_factor), ARG(i32, sum_shift), ARG(i32, sum_low),
       ARG(i32, sum_high), ARG(i32, relu), ARG(Requant, rescale), OUT(MOtype, c)) {
  LOCAL i32 tile_a[TILE_K / TERMS][TILE + 1];
  LOCAL i32 tile_b[TILE_K / TERMS][TILE + 1];
  const i32 tx = LOCAL_ID(0), ty = LOCAL_ID(1), t = ty * SIDE + tx;
  const i32 row0 = (i32)GROUP_ID(1) * TILE, col0 = (i32)GROUP_ID(0) * TILE;
  const i64 base_a = GROUP_ID(2) * stride_a, base_b = GROUP_ID(2) * stride_b;
  const i64 base_c = GROUP_ID(2) * stride_c;
  Sum sum[WORK][WORK];
#if WIDE && CODE_BYTES == 1
  i64 total[WORK][WORK];
#endif
  REPEAT for (i32 i = 0; i < WORK; ++i) {
    REPEAT for (i32 j = 0; j < WORK; ++j) {
      sum[i][j] = 0;
#if WIDE && CODE_BYTES == 1
      total[i][j] = 0;
#endif
    }
  }
  for (i32 k0 = 0; k0 < k; k0 += TILE_K) {
#if DOT_BYTES
    LOAD_BYTES(tile_a, a, base_a, lda, row0, m, !TRANS_A)
    LOAD_BYTES(tile_b, b, base_b, ldb, col0, n, TRANS_B)
#else
    LOAD_TILE(i32, tile_a, a, base_a, lda, row0, m, !TRANS_A, 0)
    LOAD_TILE(i32, tile_b, b, base_b, ldb, col0, n, TRANS_B, 0)
#endif
    BARRIER;
    REPEAT for (i32 kk = 0; kk < TILE_K / TERMS; ++kk) {
      i32 x[WORK], y[WORK];
      REPEAT for (i32 i = 0; i < WORK; ++i) x[i] = tile_a[kk][ty + SIDE * i];
      REPEAT for (i32 j = 0; j < WORK; ++j) y[j] = tile_b[kk][tx + SIDE * j];
      REPEAT for (i32 i = 0; i < WORK; ++i) {
        REPEAT for (i32 j = 0; j < WORK; ++j) sum[i][j] = ADD_PRODUCT(sum[i][j], x[i], y[j]);
      }
    }
    BARRIER;
#if WIDE && CODE_BYTES == 1
    if ((k0 + TILE_K) % SLICE == 0 || k0 + TILE_K >= k) {
      REPEAT for (i32 i = 0; i < WORK; ++i) {
        REPEAT for (i32 j = 0; j < WORK; ++j) {
          total[i][j] += (i32)sum[i][j];
          sum[i][j] = 0;
        }
      }
    }
#endif
  }
  REPEAT for (i32 i = 0; i < WORK; ++i) {
    const i32 row = row0 + ty + SIDE * i;
    REPEAT for (i32 j = 0; j < WORK; ++j) {
      const i32 col = col0 + tx + SIDE * j;
      if (row < m && col < n) {
        const i64 at = base_c + (i64)row * ldc + col;
#if SUMS
        *(GLOBAL i32*)BYTES_AT(c, 4 * at) = (i32)sum[i][j];
#else
        const i32 channel = CHANNEL_ROWS ? row : col;
        const i64 offset = LOAD(i64, bias, channel);
#if CODE_BYTES == 2
        const i64 v = sum[i][j] + offset;
#elif WIDE
        const i64 v = total[i][j] + offset;
#else
        const i64 v = (i32)(sum[i][j] + (u32)offset);
#endif
#if VALUES
        STORE(MOtype, c, at,
              sum_value(v, LOAD(i32, multiplier, channel), LOAD(i32, shift, channel)));
#else
        const i64 r = requantize_slope(
            v, LOAD(i32, multiplier, channel), LOAD(i32, shift, channel),
            LOAD(i32, negative_multiplier, channel), LOAD(i32, negative_shift, channel));
        const i64 own = r < low ? low : r > high ? high : r;
#if RESIDUAL
        STORE(MOtype, c, at,
              (Acctype)residual_code(own, LOAD(MOtype, residual, at), factor, residual_factor,
                                     sum_shift, sum_low, sum_high, relu, rescale.multiplier,
                                     rescale.shift));
#else
        STORE(MOtype, c, at, (Acctype)own);
#endif
#endif
#endif
      }
    }
  }
}
#undef SLICE
#undef ADD_PRODUCT
#undef TERMS
#undef Sum
#undef LOAD_TERM
