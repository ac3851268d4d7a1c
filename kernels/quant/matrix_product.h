//! types: device
//! tests: library
#include "dialect/matrix.h"
#include "epilogue/residual_code.h"
#include "math/requantize_fast.h"
// Convolutions and products of codes with channels last, by matrix units:
//   y [rows, channels] = requantized x [rows, taps of the window] weights [channels, taps] + bias
// Rows are positions of images; the taps of a row are gathered from x [images, height, width,
// channels]. The third index of a work group is the group of the convolution. Weights come from
// pack_matrix. Their zero point is part of their bytes, that of x is part of the bias; see
// caffe/library/quant_arguments.hpp.
// Defines: TILE_M x TILE_N results of a work group of WARPS_M x WARPS_N warps, TILE_K (bytes of a
// step), STAGES (steps in local memory), VECTOR (bytes of x that are read at once; they belong to
// one position), POINTWISE (1: rows of x are rows of y's), CODE_BYTES, WIDE (1: sums of 64 bits),
// SLOPE (1: factors of their own below 0), RESIDUAL (1: the sum with a residual follows, whose rows
// are y_row elements apart), OUT_VECTOR (bytes of y that are written at once).
// On processors unrolled loops take too long to compile.
#if MATRIX_UNITS
#define REPEAT UNROLL
#else
#define REPEAT
#endif
#define ITEMS (WARPS_M * WARPS_N * 32)
#define PARTS_M (TILE_M / WARPS_M / 16)
#define PARTS_N (TILE_N / WARPS_N / 8)
// The first row of part i of a warp. The parts of a warpgroup are 64 rows.
#if MATRIX_UNITS == 2
#define ROW_OF(warp, i) ((warp) / 4 * (TILE_M / WARPS_M * 4) + (i) * 64 + (warp) % 4 * 16)
#else
#define ROW_OF(warp, i) ((warp) / WARPS_N * (TILE_M / WARPS_M) + (i) * 16)
#endif
#define CHUNKS (TILE_K / 16)
#define VECTORS (TILE_K / VECTOR)
#define LOADS_A (TILE_M * VECTORS / ITEMS)
#define LOADS_B (TILE_N * CHUNKS / ITEMS)
#define STAGE_BYTES ((TILE_M + TILE_N) * TILE_K)
// Results wait in local memory; the gap avoids bank conflicts.
#define OUT_ROW (TILE_N * CODE_BYTES + 16)
#define OUT_BYTES (TILE_M * OUT_ROW)
// The depth in bytes up to which sums of 32 bits are exact: 2^15 codes of 8 bits, 2^14 of 16 bits.
#define SLICE 32768
#define MOST_CODE (CODE_BYTES == 1 ? 255 : 65535)
#if CODE_BYTES == 2
#define SLICE_SUM(i, j, e) \
  (((i64)high[i][j][e] << 16) + ((i64)middle[i][j][e] << 8) + (i64)low_sum[i][j][e])
#else
#define SLICE_SUM(i, j, e) sum[i][j][e]
#endif
#define LOAD_CHUNKS(buffer, chunk)                                               \
  {                                                                              \
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) {                                   \
      load_rows(a[buffer][i], tile_a, ROW_OF(warp, i), chunk, lane);             \
    }                                                                            \
    REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) {                               \
      load_columns(b[buffer][j], tile_b, warp_col + j * 16, chunk, lane);        \
    }                                                                            \
  }

KERNEL(matrix_product, ARG(i32, rows), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), ARG(i32, kernel_w), ARG(i32, stride_h), ARG(i32, stride_w),
       ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, dilation_h), ARG(i32, dilation_w),
       ARG(i32, pixel), ARG(i32, group_bytes), ARG(i32, depth), ARG(i32, packed_depth),
       ARG(i32, group_out), ARG(i32, y_row), ARG(i32, column_tiles), ARG(u32, padding),
       ARG(i32, low), ARG(i32, high_bound), IN(MItype, x), IN(MItype, weights), IN(i64, bias),
       IN(i32, multiplier), IN(i32, shift), IN(i32, negative_multiplier),
       IN(i32, negative_shift), IN(MOtype, residual), ARG(i32, factor), ARG(i32, residual_factor),
       ARG(i32, sum_shift), ARG(i32, sum_low), ARG(i32, sum_high), ARG(i32, relu),
       ARG(Requant, rescale), OUT(MOtype, y)) {
#if MATRIX_UNITS == 2
  LOCAL_DYNAMIC(u8, memory);
#else
  LOCAL u8 memory[STAGES * STAGE_BYTES > OUT_BYTES ? STAGES * STAGE_BYTES : OUT_BYTES]
      __attribute__((aligned(128)));
#endif
  const i32 t = LOCAL_ID(0), lane = t & 31, warp = t >> 5;
  const i32 row_tile = (i32)GROUP_ID(0) / column_tiles;
  const i32 row0 = row_tile * TILE_M;
  const i32 col0 = ((i32)GROUP_ID(0) - row_tile * column_tiles) * TILE_N;
  const i32 group = (i32)GROUP_ID(2);
  const i32 warp_col = warp % WARPS_N * (TILE_N / WARPS_N);
  // The rows of A whose vectors this item copies, always the same ones.
  const i32 vector = t % VECTORS * VECTOR;
#if !POINTWISE
  i64 base[LOADS_A];
  i32 top[LOADS_A], left[LOADS_A];
  REPEAT for (i32 l = 0; l < LOADS_A; ++l) {
    const i32 row = row0 + t / VECTORS + l * (ITEMS / VECTORS);
    const i32 line = row / out_width;
    const i32 image = line / out_height;
    const i32 h = (line - image * out_height) * stride_h - pad_h;
    left[l] = (row - line * out_width) * stride_w - pad_w;
    top[l] = row < rows ? h : -(1 << 28);
    base[l] = (((i64)image * height + h) * width + left[l]) * pixel + group * group_bytes;
  }
  // The tap of the vector, and its place among the channels.
  i32 kh = vector / group_bytes / kernel_w;
  i32 kw = vector / group_bytes - kh * kernel_w;
  i32 channel_at = vector % group_bytes;
#endif
#if CODE_BYTES == 2
  i32 high[PARTS_M][PARTS_N][4], middle[PARTS_M][PARTS_N][4], low_sum[PARTS_M][PARTS_N][4];
#else
  i32 sum[PARTS_M][PARTS_N][4];
#endif
#if WIDE
  i64 total[PARTS_M][PARTS_N][4];
#endif
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      REPEAT for (i32 e = 0; e < 4; ++e) {
#if CODE_BYTES == 2
        high[i][j][e] = middle[i][j][e] = low_sum[i][j][e] = 0;
#else
        sum[i][j][e] = 0;
#endif
#if WIDE
        total[i][j][e] = 0;
#endif
      }
    }
  }
  const i32 steps = (depth + TILE_K - 1) / TILE_K;
  for (i32 s = 0; s < steps + STAGES - 1; ++s) {
    COPY_WAIT(STAGES - 2);
#if MATRIX_UNITS == 2
    GROUP_SEES;
#endif
    BARRIER;
    if (s < steps) {
      const i32 stage = s % STAGES * STAGE_BYTES;
      const i32 k = s * TILE_K + vector;
#if POINTWISE
      const i32 used = k < depth;
#else
      const i32 down = kh * dilation_h, right = kw * dilation_w;
      const i32 from = (down * width + right) * pixel + channel_at;
      for (channel_at += TILE_K; channel_at >= group_bytes; channel_at -= group_bytes) {
        if (++kw == kernel_w) {
          kw = 0;
          ++kh;
        }
      }
#endif
      REPEAT for (i32 l = 0; l < LOADS_A; ++l) {
        const i32 r = t / VECTORS + l * (ITEMS / VECTORS);
#if POINTWISE
        const i32 inside = used && row0 + r < rows;
        const i64 at = (i64)(row0 + r) * pixel + k;
#else
        const i32 h = top[l] + down, w = left[l] + right;
        const i32 inside = k < depth && h >= 0 && h < height && w >= 0 && w < width;
        const i64 at = base[l] + from;
#endif
        LOCAL_PTR u8* to = memory + stage + TILE_AT(r, vector >> 4) + (vector & 15);
        if (inside) {
          GLOBAL const u8* source = BYTES_AT(x, 0) + at;
          // Other taps read the same bytes again, from the first cache.
#if VECTOR == 16 && POINTWISE
          COPY_CHUNK(to, source);
#else
          COPY_BYTES(to, source, VECTOR);
#endif
        } else {
          REPEAT for (i32 i = 0; i < VECTOR; i += 4) *(LOCAL_PTR u32*)(to + i) = padding;
        }
      }
      REPEAT for (i32 l = 0; l < LOADS_B; ++l) {
        const i32 e = t + l * ITEMS, r = e / CHUNKS, chunk = e % CHUNKS;
        const i32 at = s * TILE_K + chunk * 16;
        LOCAL_PTR u8* to = memory + stage + TILE_M * TILE_K + TILE_AT(r, chunk);
        if (col0 + r < group_out && at < packed_depth) {
          GLOBAL const u8* source =
              BYTES_AT(weights, 0) + (i64)(group * group_out + col0 + r) * packed_depth + at;
          COPY_CHUNK(to, source);
        } else {
          REPEAT for (i32 i = 0; i < 16; i += 4) *(LOCAL_PTR u32*)(to + i) = 0;
        }
      }
    }
    COPY_END;
    if (s >= STAGES - 1) {
      LOCAL_PTR const u8* tile_a = memory + (s - (STAGES - 1)) % STAGES * STAGE_BYTES;
      LOCAL_PTR const u8* tile_b = tile_a + TILE_M * TILE_K;
#if CODE_BYTES == 1 && MATRIX_UNITS == 2
      const u64 b = tile_descriptor(tile_b);
      GROUP_BEGIN;
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 2) {
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          const u64 a = tile_descriptor(tile_a + ROW_OF(warp & ~3, i) * TILE_K);
          multiply_group(sum[i][0], a + chunk, b + chunk);
        }
      }
      GROUP_END;
#elif CODE_BYTES == 1
      // Matrix units load the chunks of the next products before they compute the last ones.
      u32 a[2][PARTS_M][4], b[2][PARTS_N / 2][4];
      LOAD_CHUNKS(0, 0)
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 2) {
        const i32 now = MATRIX_UNITS * (chunk >> 1 & 1);
        if (MATRIX_UNITS && chunk + 2 < CHUNKS) LOAD_CHUNKS(now ^ 1, chunk + 2)
        if (!MATRIX_UNITS && chunk > 0) LOAD_CHUNKS(0, chunk)
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            MULTIPLY_BYTES(sum[i][j], a[now][i], tile_a, b[now][j / 2] + j % 2 * 2, tile_b, lane);
          }
        }
      }
#else
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 4) {
        u32 b[2][PARTS_N / 2][4];
        REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) {
          load_columns(b[0][j], tile_b, warp_col + j * 16, chunk, lane);
          load_columns(b[1][j], tile_b, warp_col + j * 16, chunk + 2, lane);
        }
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          u32 a[8], low_a[4], high_a[4];
          load_rows(a, tile_a, ROW_OF(warp, i), chunk, lane);
          load_rows(a + 4, tile_a, ROW_OF(warp, i), chunk + 2, lane);
          split_words(low_a, high_a, a);
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            const u32* low_b = b[0][j / 2] + j % 2 * 2;
            const u32* high_b = b[1][j / 2] + j % 2 * 2;
            MULTIPLY_WORDS(high[i][j], middle[i][j], low_sum[i][j], a, low_a, high_a, tile_a,
                           low_b, high_b, tile_b, lane);
          }
        }
      }
#endif
#if WIDE
      const i32 done = (s - (STAGES - 1) + 1) * TILE_K;
      if (done % SLICE == 0 || done >= depth) {
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            REPEAT for (i32 e = 0; e < 4; ++e) {
              total[i][j][e] += SLICE_SUM(i, j, e);
#if CODE_BYTES == 2
              high[i][j][e] = middle[i][j][e] = low_sum[i][j][e] = 0;
#else
              sum[i][j][e] = 0;
#endif
            }
          }
        }
      }
#endif
    }
  }
  COPY_WAIT(0);
  BARRIER;
  // Bounds of the activation and of codes, as code - zero point.
  const i32 least = clamp_i32(low, -y_zero, MOST_CODE - y_zero);
  const i32 most = clamp_i32(high_bound, -y_zero, MOST_CODE - y_zero);
  REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
    REPEAT for (i32 odd = 0; odd < 2; ++odd) {
      const i32 column = warp_col + j * 8 + lane % 4 * 2 + odd;
      if (col0 + column < group_out) {
        const i32 channel = group * group_out + col0 + column;
        const i64 offset = LOAD(i64, bias, channel);
        const i32 m = LOAD(i32, multiplier, channel), n = LOAD(i32, shift, channel);
#if SLOPE
        const i32 negative_m = LOAD(i32, negative_multiplier, channel);
        const i32 negative_n = LOAD(i32, negative_shift, channel);
#endif
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 down = 0; down < 2; ++down) {
#if WIDE
            const i64 v = total[i][j][down * 2 + odd] + offset;
#elif CODE_BYTES == 2
            const i64 v = SLICE_SUM(i, j, down * 2 + odd) + offset;
#else
            const i32 v = (i32)((u32)sum[i][j][down * 2 + odd] + (u32)offset);
#endif
#if SLOPE
            const i64 r = requantize_slope(v, m, n, negative_m, negative_n);
#elif WIDE || CODE_BYTES == 2
            const i64 r = requantize_wide_sum(v, m, n);
#else
            const i32 r = requantize_sum(v, m, n);
#endif
            const i32 row = ROW_OF(warp, i) + lane / 4 + down * 8;
#if RESIDUAL
            const i64 own = r < low ? low : r > high_bound ? high_bound : r;
            const i64 from = (i64)(row0 + row) * y_row + channel;
            const i32 sum_code =
                row0 + row < rows
                    ? (i32)residual_code(own, LOAD(MOtype, residual, from), factor,
                                         residual_factor, sum_shift, sum_low, sum_high, relu,
                                         rescale.multiplier, rescale.shift)
                    : 0;
            const i32 code = clamp_i32(sum_code, -y_zero, MOST_CODE - y_zero) + y_zero;
#else
            const i32 code = (i32)(r < least ? least : r > most ? most : r) + y_zero;
#endif
            const i32 at = row * OUT_ROW + column * CODE_BYTES;
#if CODE_BYTES == 2
            *(LOCAL_PTR u16*)(memory + at) = (u16)code;
#else
            memory[at] = (u8)code;
#endif
          }
        }
      }
    }
  }
  BARRIER;
  const i32 columns = group_out - col0 < TILE_N ? group_out - col0 : TILE_N;
  const i32 vectors = columns * CODE_BYTES / OUT_VECTOR;
  GLOBAL u8* target = (GLOBAL u8*)BYTES_AT(y, 0) +
                      ((i64)row0 * y_row + group * group_out + col0) * CODE_BYTES;
  // A part of a larger array may begin anywhere.
  if (((u64)target & (OUT_VECTOR - 1)) != 0) {
    const i32 bytes = columns * CODE_BYTES;
    for (i32 e = t; e < TILE_M * bytes; e += ITEMS) {
      const i32 row = e / bytes, at = e - row * bytes;
      if (row0 + row < rows) target[(i64)row * y_row * CODE_BYTES + at] = memory[row * OUT_ROW + at];
    }
    return;
  }
  for (i32 e = t; e < TILE_M * vectors; e += ITEMS) {
    const i32 row = e / vectors, at = (e - row * vectors) * OUT_VECTOR;
    if (row0 + row < rows) {
      LOCAL_PTR const u8* from = memory + row * OUT_ROW + at;
      GLOBAL u8* to = target + (i64)row * y_row * CODE_BYTES + at;
#if OUT_VECTOR == 16
      *(GLOBAL uint4*)to = *(LOCAL_PTR const uint4*)from;
#elif OUT_VECTOR == 4
      *(GLOBAL u32*)to = *(LOCAL_PTR const u32*)from;
#elif OUT_VECTOR == 2
      *(GLOBAL u16*)to = *(LOCAL_PTR const u16*)from;
#else
      *to = *from;
#endif
    }
  }
}
#undef REPEAT
#undef LOAD_CHUNKS
#undef ITEMS
#undef ROW_OF
#undef PARTS_M
#undef PARTS_N
#undef CHUNKS
#undef VECTORS
#undef LOADS_A
#undef LOADS_B
#undef STAGE_BYTES
#undef OUT_ROW
#undef OUT_BYTES
#undef SLICE
#undef MOST_CODE
#undef SLICE_SUM
