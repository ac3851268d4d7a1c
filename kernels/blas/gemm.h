//! types: device
//! tests: library
// C[i] = EPILOGUE(alpha op(A[i]) op(B[i]) + beta C[i] + bias), row-major; i is the third index of
// the work group. A group of SIDE x SIDE computes a TILE x TILE part, its items WORK x WORK
// elements, SIDE apart. Defines: TRANS_A, TRANS_B (0 or 1), TILE (a multiple of 16; at most 8 SIDE
// of it are used), FULL (1 if no tile sticks out), GEMM_DOUBLE (1 if Dtype is double), GEMM_UNROLL,
// HALF_SUMS (1: sums of TILE_K products are computed in half, in OpenCL with cl_khr_fp16; one that
// exceeds the numbers of half is computed again in float).
// Arguments: bias_kind is 0 (none), 1 (per row) or 2 (per column); the bias is of type Dtype.
#include "epilogue/bounds.h"
#if HALF_SUMS
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define Termtype half
#define LOAD_TERM(T, source, at) as_half(source[AT(source, at)])
#else
#define Termtype Acctype
#endif
#include "math/gemm_tile.h"
#define INSIDE_M(i) (FULL || (i) < m)
#define INSIDE_N(i) (FULL || (i) < n)
#if HALF_SUMS
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#elif defined(__OPENCL_VERSION__)
#define MULTIPLY_ADD(x, y, z) mad(x, y, z)
#elif GEMM_DOUBLE
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#else
#define MULTIPLY_ADD(x, y, z) fmaf(x, y, z)
#endif

KERNEL(gemm, ARG(i32, m), ARG(i32, n), ARG(i32, k), ARG(Acctype, alpha), ARG(Acctype, beta),
       ARG(i32, read_c), ARG(i32, bias_kind), ARG(Acctype, activation_a),
       ARG(Acctype, activation_b), ARG(Acctype, coefficient), IN(MOtype, residual),
       IN(Mastertype, slopes), ARG(i32, lda), ARG(i32, ldb), ARG(i32, ldc), ARG(i64, stride_a),
       ARG(i64, stride_b), ARG(i64, stride_c), IN(MItype, a), IN(MItype, b), IN(Dtype, bias),
       OUT(MOtype, c)) {
  // One element of padding avoids bank conflicts of transposing stores.
  LOCAL Termtype tile_a[TILE_K][TILE + 1];
  LOCAL Termtype tile_b[TILE_K][TILE + 1];
  const i32 tx = LOCAL_ID(0), ty = LOCAL_ID(1), t = ty * SIDE + tx;
  const i32 row0 = (i32)GROUP_ID(1) * TILE, col0 = (i32)GROUP_ID(0) * TILE;
  const i64 base_a = GROUP_ID(2) * stride_a, base_b = GROUP_ID(2) * stride_b;
  const i64 base_c = GROUP_ID(2) * stride_c;
  Acctype sum[WORK][WORK];
  REPEAT for (i32 i = 0; i < WORK; ++i) {
    REPEAT for (i32 j = 0; j < WORK; ++j) sum[i][j] = 0;
  }
  for (i32 k0 = 0; k0 < k; k0 += TILE_K) {
    LOAD_TILE(Termtype, tile_a, a, base_a, lda, row0, m, !TRANS_A, FULL)
    LOAD_TILE(Termtype, tile_b, b, base_b, ldb, col0, n, TRANS_B, FULL)
    BARRIER;
#if HALF_SUMS
    half part[WORK][WORK];
    REPEAT for (i32 i = 0; i < WORK; ++i) {
      REPEAT for (i32 j = 0; j < WORK; ++j) part[i][j] = 0;
    }
#define PART part
#else
#define PART sum
#endif
    REPEAT for (i32 kk = 0; kk < TILE_K; ++kk) {
      Termtype x[WORK], y[WORK];
      REPEAT for (i32 i = 0; i < WORK; ++i) x[i] = tile_a[kk][ty + SIDE * i];
      REPEAT for (i32 j = 0; j < WORK; ++j) y[j] = tile_b[kk][tx + SIDE * j];
      REPEAT for (i32 i = 0; i < WORK; ++i) {
        REPEAT for (i32 j = 0; j < WORK; ++j) PART[i][j] = MULTIPLY_ADD(x[i], y[j], PART[i][j]);
      }
    }
#undef PART
#if HALF_SUMS
    REPEAT for (i32 i = 0; i < WORK; ++i) {
      REPEAT for (i32 j = 0; j < WORK; ++j) {
        Acctype whole = part[i][j];
        if (!isfinite(whole)) {
          whole = 0;
          for (i32 kk = 0; kk < TILE_K; ++kk) {
            whole += (Acctype)tile_a[kk][ty + SIDE * i] * (Acctype)tile_b[kk][tx + SIDE * j];
          }
        }
        sum[i][j] += whole;
      }
    }
#endif
    BARRIER;
  }
  REPEAT for (i32 i = 0; i < WORK; ++i) {
    const i32 row = row0 + ty + SIDE * i;
    REPEAT for (i32 j = 0; j < WORK; ++j) {
      const i32 col = col0 + tx + SIDE * j;
      if (INSIDE_M(row) && INSIDE_N(col)) {
        const i64 at = base_c + (i64)row * ldc + col;
        Acctype v = alpha * sum[i][j];
        if (read_c) v += beta * LOAD(MOtype, c, at);
        if (bias_kind) v += LOAD(Dtype, bias, bias_kind == 1 ? row : col);
        STORE(MOtype, c, at, EPILOGUE(v, row, col, at));
      }
    }
  }
}
#undef INSIDE_M
#undef INSIDE_N
#undef MULTIPLY_ADD
#undef Termtype
#undef LOAD_TERM
