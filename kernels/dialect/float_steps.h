      // A part of conv/matrix_convolution.h: adds the products of a step to `sum`.
#if MATRIX_UNITS && ELEMENT_BYTES == 4
      u32 a[FLOAT_STEPS][PARTS_M][4], low_a[FLOAT_STEPS][PARTS_M][4];
      u32 b[FLOAT_STEPS][PARTS_N / 2][4], low_b[FLOAT_STEPS][PARTS_N / 2][4];
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 2 * FLOAT_STEPS) {
        REPEAT for (i32 k = 0; k < FLOAT_STEPS; ++k) {
          LOAD_CHUNKS(k, chunk + 2 * k)
          REPEAT for (i32 i = 0; i < PARTS_M; ++i) split_floats(a[k][i], low_a[k][i]);
          REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) split_floats(b[k][j], low_b[k][j]);
        }
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          MULTIPLY_FLOATS(sum[i], PARTS_N, i, a, low_a, b, low_b)
        }
      }
#elif MATRIX_UNITS == 2
#include "dialect/group_steps.h"
#elif MATRIX_UNITS
      // The chunks of the next products are loaded before the last ones are computed.
      u32 a[2][PARTS_M][4], b[2][PARTS_N / 2][4];
      LOAD_CHUNKS(0, 0)
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 2) {
        const i32 now = chunk >> 1 & 1;
        if (chunk + 2 < CHUNKS) LOAD_CHUNKS(now ^ 1, chunk + 2)
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            multiply_parts(sum[i][j], a[now][i], b[now][j / 2] + j % 2 * 2);
          }
        }
      }
#else
      u32 a[1][PARTS_M][4], b[1][PARTS_N / 2][4];
      for (i32 chunk = 0; chunk < CHUNKS; chunk += 2) {
        LOAD_CHUNKS(0, chunk)
        for (i32 i = 0; i < PARTS_M; ++i) {
          MULTIPLY_FLOATS(sum[i], PARTS_N, a[0][i], tile_a, b[0], tile_b, lane);
        }
      }
#endif
