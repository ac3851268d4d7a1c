//! types: device
//! tests: library
#include "dialect/matrix_floats.h"
#include "epilogue/bounds.h"
#if ROW_GROUPS
#include "math/row_groups.h"
#endif
#define MOST_BLOCK 32
#include "dialect/matrix_tiles.h"
#include "dialect/arrivals.h"
// Convolutions and products of floats with channels last, by matrix units:
//   y [rows, channels] = EPILOGUE(alpha x [rows, taps of the window] weights [channels, taps] +
//                                 beta y + bias)
// Rows are positions of images; the taps of a row are gathered from x [images, height, width,
// channels]. The third index of a work group is the group of the convolution. Rows of weights have
// packed_depth bytes, those behind `depth` are 0. Defines: those of dialect/matrix_floats.h and
// dialect/matrix_tiles.h; IMAGES (1: x has C order, see dialect/image_tiles.h); PATCH (1: each
// position is copied once, see dialect/window_patch.h); POINTWISE (1: rows of x are rows of y's),
// WHOLE_CHUNKS (1: vectors of x have 16 bytes and pass by the first cache), BIAS and RESIDUAL (1:
// there is one), ROW_GROUPS (0, or the number of experts: rows are ordered by expert, and each has
// weights, a bias and slopes for `channels` channels), SPREAD (1: only positions of x at multiples
// of SPREAD_H and SPREAD_W are in memory, the others are 0), SPLIT (1: `parts` work groups, the
// second index, divide the depth of a tile, see dialect/tile_parts.h).

KERNEL(matrix_convolution, ARG(i32, rows), ARG(i32, height), ARG(i32, width),
       ARG(i32, out_height), ARG(i32, out_width), ARG(i32, kernel_w), ARG(i32, stride_h),
       ARG(i32, stride_w), ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, dilation_h),
       ARG(i32, dilation_w), ARG(i32, pixel), ARG(i32, group_bytes), ARG(i32, depth),
       ARG(i32, packed_depth), ARG(i32, channels),
       ARG(i32, group_out), ARG(i32, y_row),
       ARG(i32, column_tiles), ARG(i32, parts), ARG(i32, tiles), ARG(Acctype, alpha),
       ARG(Acctype, beta), ARG(Acctype, activation_a), ARG(Acctype, activation_b),
       ARG(Acctype, coefficient), IN(MOtype, residual), IN(Mastertype, slopes), IN(f32, offsets),
       IN(MItype, x), IN(MItype, weights), IN(Mastertype, bias), OUT(f32, partial),
       OUT(i32, arrived), OUT(MOtype, y)) {
  STAGE_MEMORY(memory);
  const i32 t = LOCAL_ID(0), lane = t & 31, warp = t >> 5;
  const i32 row_tile = (i32)GROUP_ID(0) / column_tiles;
  const i32 col0 = ((i32)GROUP_ID(0) - row_tile * column_tiles) * TILE_N;
  const i32 group = (i32)GROUP_ID(2);
  const i32 warp_col = warp % WARPS_N * OWN_COLUMNS;
#if IMAGES
  const i32 channel0 = 0;
#include "dialect/image_rows.h"
#elif ROW_GROUPS
  FIND_ROW_TILE(found, row_tile, TILE_M, out_height * out_width, rows)
  const i32 row0 = found.begin, end_row = found.end;
  const i32 channel0 = found.group * channels + group * group_out;
  if (row0 == end_row) return;
#else
  const i32 row0 = row_tile * TILE_M, end_row = rows;
  const i32 channel0 = group * group_out;
#endif
#if PATCH
  const i32 all_steps = group_bytes / PATCH_BLOCK * PATCH_STEPS;
#else
  const i32 all_steps = (depth + TILE_K - 1) / TILE_K;
#endif
#if SPLIT
  const i32 part = (i32)GROUP_ID(1), first_step = all_steps * part / parts;
  const i32 steps = all_steps * (part + 1) / parts - first_step;
#else
  const i32 first_step = 0, steps = all_steps;
#endif
#if PATCH
#include "dialect/patch_rows.h"
#elif !IMAGES
#include "dialect/tile_rows.h"
#endif
  float sum[PARTS_M][PARTS_N][4];
#if MATRIX_UNITS != 2
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      REPEAT for (i32 e = 0; e < 4; ++e) sum[i][j][e] = 0;
    }
  }
#endif
  for (i32 s = 0; s < steps + LEAD; ++s) {
    COPY_WAIT(LEAD - 1);
    GROUP_SEES;
    BARRIER;
    if (s < steps) {
#include "dialect/tile_steps.h"
#if PATCH
      // The products of the block before the last one, whose memory this is, are computed.
      const i32 next = s / PATCH_STEPS + 1;
      if (s % PATCH_STEPS == LEAD % PATCH_STEPS && next * PATCH_STEPS < steps) COPY_PATCH(next)
#endif
    }
    COPY_END;
    if (s >= LEAD) {
#if PATCH
      const i32 number = (s - LEAD) / PATCH_STEPS;
      LOCAL_PTR const u8* tile_a = patch + number % PATCH_BUFFERS * PATCH_BYTES;
      LOCAL_PTR const u8* tile_b = memory + (s - LEAD) % STAGES * STAGE_BYTES;
#else
      LOCAL_PTR const u8* tile_a = memory + (s - LEAD) % STAGES * STAGE_BYTES;
      LOCAL_PTR const u8* tile_b = tile_a + TILE_A_BYTES;
#endif
#include "dialect/float_steps.h"
    }
  }
#if OVERLAP
  GROUP_END(0);
#endif
#if SPLIT
#include "dialect/tile_parts.h"
#endif
  const i32 quad = lane % 4;
  REPEAT for (i32 block = 0; block < OWN_COLUMNS / BLOCK; ++block) {
    const i32 run = col0 + warp_col + block * BLOCK + quad * RUN;
    // `last` is the last one of the run's channels that exists.
    const i32 last = run + RUN <= group_out ? RUN - 1 : group_out - 1 - run;
    if (last < 0) continue;
    Acctype offset[RUN];
    REPEAT for (i32 c = 0; c < RUN; ++c) {
      offset[c] = BIAS && c <= last ? LOAD(Mastertype, bias, channel0 + run + c) : 0;
    }
    REPEAT for (i32 part = 0; part < 2 * PARTS_M; ++part) {
      const i32 result = ROW_OF(warp, part / 2) + lane / 4 + part % 2 * 8;
#if IMAGES
      const i32 line = top + result / AREA_W, column = left + result % AREA_W;
      if (result >= AREA_H * AREA_W || line >= out_height || column >= out_width) continue;
      const i32 row = (image * out_height + line) * out_width + column;
#else
      const i32 row = row0 + result;
      if (row >= end_row) continue;
#endif
      const i64 from = (i64)row * y_row + group * group_out + run, end = from + last + 1;
      Acctype v[RUN];
#if RESIDUAL
      Acctype added[RUN];
      REPEAT for (i32 c = 0; c < RUN; c += SPAN) {
        LOAD_SPAN(MOtype, added + c, residual, from + c, end);
      }
#endif
      REPEAT for (i32 c = 0; c < RUN; ++c) {
        const i32 channel = channel0 + run + (c < last ? c : last);
        const i64 at = from + (c < last ? c : last);
        v[c] = alpha * sum[part / 2][block * (BLOCK / 8) + c / 2][part % 2 * 2 + c % 2];
        if (beta != 0) v[c] += beta * LOAD(MOtype, y, at);
        v[c] += offset[c];
        v[c] = EPILOGUE(v[c], channel, channel, at);
      }
      REPEAT for (i32 c = 0; c < RUN; c += SPAN) STORE_SPAN(MOtype, y, from + c, end, v + c);
    }
  }
}
