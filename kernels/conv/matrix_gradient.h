//! types: device
//! tests: library
#include "dialect/matrix_floats.h"
#define MOST_BLOCK 32
#include "dialect/matrix_tiles.h"
#include "dialect/transposed_tiles.h"
#include "dialect/arrivals.h"
#include "math/packed_source.h"
#include "math/quotient.h"
// Gradients of weights of floats with channels last, by matrix units:
//   y [out, channels, kernel_h, kernel_w] = beta y + alpha the sum over positions of
//                                           y_diff [positions, out] and of the taps [positions, …]
// The taps of a position are gathered from x [images, height, width, channels]; element e of them
// belongs to the weight that packed_element names. The third index of a work group is the group of
// the convolution. Defines: those of dialect/matrix_floats.h and dialect/matrix_tiles.h, where
// VECTOR are the bytes of x and VECTOR_Y those of y_diff that are read at once; POINTWISE (1:
// positions of x are those of y_diff); JOINED (1: groups of channels share a row of packed
// weights); SPLIT (1: `parts` work groups, the second index, divide the positions of a tile, see
// dialect/tile_parts.h).
#define VECTORS_A (ROW_BYTES(TILE_M) / VECTOR_Y)
#define VECTORS_B (ROW_BYTES(TILE_N) / VECTOR)
#define ROWS_A (ITEMS / VECTORS_A)
#define ROWS_B (ITEMS / VECTORS_B)

KERNEL(matrix_gradient, ARG(i32, positions), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), ARG(i32, kernel_w), ARG(i32, stride_h),
       ARG(i32, stride_w), ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, dilation_h),
       ARG(i32, dilation_w), ARG(i32, pixel), ARG(i32, group_bytes), ARG(i32, depth),
       ARG(i32, y_pixel), ARG(i32, group_out), ARG(i32, column_tiles), ARG(i32, parts),
       ARG(i32, tiles), ARG(i32, channels), ARG(i32, padded), ARG(i32, fold_h), ARG(i32, fold_w),
       ARG(i32, plain_h), ARG(i32, plain_w), ARG(i32, folded_h), ARG(i32, folded_w),
       ARG(i32, joined_out), ARG(i64, line_multiplier), ARG(i32, line_shift),
       ARG(i64, image_multiplier), ARG(i32, image_shift), ARG(Acctype, alpha), ARG(Acctype, beta),
       IN(MItype, y_diff), IN(MItype, x), OUT(f32, partial), OUT(i32, arrived),
       OUT(Mastertype, y)) {
  LOCAL u8 memory[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
  const i32 t = LOCAL_ID(0), lane = t & 31, warp = t >> 5;
  const i32 row_tile = (i32)GROUP_ID(0) / column_tiles;
  const i32 row0 = row_tile * TILE_M, group = (i32)GROUP_ID(2);
  const i32 column0 = ((i32)GROUP_ID(0) - row_tile * column_tiles) * TILE_N;
  const i32 all_steps = (positions + TERMS - 1) / TERMS;
#if SPLIT
  const i32 part = (i32)GROUP_ID(1), first_step = (i32)((i64)all_steps * part / parts);
  const i32 steps = (i32)((i64)all_steps * (part + 1) / parts) - first_step;
#else
  const i32 first_step = 0, steps = all_steps;
#endif
  // The vectors that this item copies in each step: the same of all positions.
  const i32 vector_a = t % VECTORS_A * VECTOR_Y, vector_b = t % VECTORS_B * VECTOR;
  const i32 from_a = group * group_out * ELEMENT_BYTES + row0 * ELEMENT_BYTES + vector_a;
  const i32 used_a = row0 * ELEMENT_BYTES + vector_a < group_out * ELEMENT_BYTES;
  const i32 at_b = column0 * ELEMENT_BYTES + vector_b, used_b = at_b < depth;
  const i32 tap = at_b / group_bytes, tap_h = tap / kernel_w;
  const i32 down = tap_h * dilation_h - pad_h, right = (tap - tap_h * kernel_w) * dilation_w - pad_w;
  const i32 from_b = group * group_bytes + at_b - tap * group_bytes;
  float sum[PARTS_M][PARTS_N][4];
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      REPEAT for (i32 e = 0; e < 4; ++e) sum[i][j][e] = 0;
    }
  }
  const i32 warp_row = warp / WARPS_N * (TILE_M / WARPS_M), warp_column = warp % WARPS_N * OWN_COLUMNS;
  for (i32 s = 0; s < steps + LEAD; ++s) {
    COPY_WAIT(LEAD - 1);
    BARRIER;
    if (s < steps) {
      LOCAL_PTR u8* to_a = memory + s % STAGES * STAGE_BYTES;
      LOCAL_PTR u8* to_b = to_a + TILE_A_BYTES;
      const i32 position0 = (first_step + s) * TERMS;
      REPEAT for (i32 k = t / VECTORS_A; k < TERMS; k += ROWS_A) {
        const i32 position = position0 + k;
        COPY_INSIDE(to_a + TERM_AT(TILE_M, k, vector_a >> 4) + (vector_a & 15),
                    BYTES_AT(y_diff, 0) + (i64)position * y_pixel + from_a, VECTOR_Y,
                    used_a && position < positions);
      }
      REPEAT for (i32 k = t / VECTORS_B; k < TERMS; k += ROWS_B) {
        const i32 position = position0 + k;
#if POINTWISE
        const i32 inside = used_b && position < positions;
        const i64 at = (i64)position * pixel + from_b;
#else
        const i32 line = quotient(position, line_multiplier, line_shift);
        const i32 image = quotient(line, image_multiplier, image_shift);
        const i32 h = (line - image * out_height) * stride_h + down;
        const i32 w = (position - line * out_width) * stride_w + right;
        const i32 inside = used_b && position < positions && h >= 0 && h < height && w >= 0 && w < width;
        const i64 at = (((i64)image * height + h) * width + w) * pixel + from_b;
#endif
        COPY_INSIDE(to_b + TERM_AT(TILE_N, k, vector_b >> 4) + (vector_b & 15),
                    BYTES_AT(x, 0) + at, VECTOR, inside);
      }
    }
    COPY_END;
    if (s >= LEAD) {
      LOCAL_PTR const u8* tile_a = memory + (s - LEAD) % STAGES * STAGE_BYTES;
      LOCAL_PTR const u8* tile_b = tile_a + TILE_A_BYTES;
#if MATRIX_UNITS && ELEMENT_BYTES == 4
      u32 a[FLOAT_STEPS][PARTS_M][4], low_a[FLOAT_STEPS][PARTS_M][4];
      u32 b[FLOAT_STEPS][PARTS_N / 2][4], low_b[FLOAT_STEPS][PARTS_N / 2][4];
      REPEAT for (i32 first = 0; first < TERMS; first += 8 * FLOAT_STEPS) {
        REPEAT for (i32 k = 0; k < FLOAT_STEPS; ++k) {
          REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
            LOAD_TERMS_A(a[k][i], tile_a, first + 8 * k, warp_row + i * 16)
            split_floats(a[k][i], low_a[k][i]);
          }
          REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) {
            LOAD_TERMS_B(b[k][j], tile_b, first + 8 * k, warp_column + j * 16)
            split_floats(b[k][j], low_b[k][j]);
          }
        }
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          MULTIPLY_FLOATS(sum[i], PARTS_N, i, a, low_a, b, low_b)
        }
      }
#elif MATRIX_UNITS
      u32 a[PARTS_M][4], b[PARTS_N / 2][4];
      REPEAT for (i32 k = 0; k < TERMS; k += 16) {
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          LOAD_TERMS_A(a[i], tile_a, k, warp_row + i * 16);
        }
        REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) {
          LOAD_TERMS_B(b[j], tile_b, k, warp_column + j * 16);
        }
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            multiply_parts(sum[i][j], a[i], b[j / 2] + j % 2 * 2);
          }
        }
      }
#else
      for (i32 e = 0; e < PARTS_M * PARTS_N * 4; ++e) {
        const i32 i = e / 4 / PARTS_N, j = e / 4 % PARTS_N;
        const i32 row = warp_row + i * 16 + lane / 4 + e % 4 / 2 * 8;
        const i32 column = warp_column + j * 8 + lane % 4 * 2 + e % 2;
        for (i32 k = 0; k < TERMS; ++k) {
          sum[i][j][e % 4] += local_float(tile_a + TERM_ELEMENT(TILE_M, k, row)) *
                              local_float(tile_b + TERM_ELEMENT(TILE_N, k, column));
        }
      }
#endif
    }
  }
#if SPLIT
#include "dialect/tile_parts.h"
#endif
  // Divisions are slow: they are not repeated for each row.
  const i32 filter = channels * plain_h * plain_w;
  i32 elements[PARTS_N][2];
  REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
    REPEAT for (i32 e = 0; e < 2; ++e) {
      const i32 column = column0 + warp_column + j * 8 + lane % 4 * 2 + e;
      elements[j][e] = column * ELEMENT_BYTES >= depth ? -1
                       : JOINED ? column
                                : packed_element(column, 0, channels, padded, fold_h, fold_w,
                                                 plain_h, plain_w, folded_h, folded_w);
    }
  }
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      REPEAT for (i32 e = 0; e < 4; ++e) {
        const i32 row = row0 + warp_row + i * 16 + lane / 4 + e / 2 * 8;
        i32 element = elements[j][e % 2];
        if (row >= group_out || element < 0) continue;
        const i32 o = group * group_out + row;
#if JOINED
        element = packed_element(element, o / joined_out * channels, channels, padded, fold_h,
                                 fold_w, plain_h, plain_w, folded_h, folded_w);
        if (element < 0) continue;
#endif
        const i64 to = (i64)o * filter + element;
        float v = alpha * sum[i][j][e];
        if (beta != 0) v += beta * LOAD(Mastertype, y, to);
        STORE(Mastertype, y, to, v);
      }
    }
  }
}
