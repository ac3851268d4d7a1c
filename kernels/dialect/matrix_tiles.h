// A work group of WARPS_M x WARPS_N warps computes TILE_M x TILE_N results in steps of TILE_K
// bytes, of which STAGES are in local memory. VECTOR: the bytes of x that are read at once.
// MOST_BLOCK limits the columns among which those of a work item are neighbours.
//
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
// Steps of A and B are read LEAD steps before their products. With warpgroups and four steps in
// memory products overlap with those of the next step; for codes of 16 bits, whose A is in
// registers, they do not.
#if MATRIX_UNITS == 2 && CODE_BYTES != 2 && STAGES >= 4
#define OVERLAP 1
#else
#define OVERLAP 0
#endif
#define LEAD (STAGES - 1 - OVERLAP)
// With IMAGES or PATCH the tile of A is what dialect/image_tiles.h or dialect/window_patch.h
// describes.
#if IMAGES || PATCH
#define TILE_A_BYTES 0
#else
#define TILE_A_BYTES (TILE_M * TILE_K)
#endif
#define STAGE_BYTES (TILE_A_BYTES + TILE_N * TILE_K)
#if MATRIX_UNITS == 2
#define STAGE_MEMORY(name) LOCAL_DYNAMIC(u8, name)
#else
#define STAGE_MEMORY(name) LOCAL u8 name[STAGES * STAGE_BYTES] __attribute__((aligned(128)))
#endif
// Columns of products are channels in another order, so that an item has RUN neighbouring channels
// of a row among BLOCK of them: its sums of columns quad * 2 and quad * 2 + 1 of BLOCK / 8 parts.
#define OWN_COLUMNS (TILE_N / WARPS_N)
#define BLOCK (OWN_COLUMNS % MOST_BLOCK == 0 ? MOST_BLOCK : OWN_COLUMNS % 32 == 0 ? 32 : 16)
#define RUN (BLOCK / 4)
#define CHANNEL_OF(column)                                                        \
  ((column) / BLOCK * BLOCK + (column) % 8 / 2 * RUN + (column) % BLOCK / 8 * 2 + (column) % 2)
#if IMAGES
#include "dialect/image_tiles.h"
#elif PATCH
#include "dialect/window_patch.h"
#else
#define A_FLOAT tile_float
#define LOAD_A(buffer, chunk)                                                    \
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {                                     \
    load_rows(a[buffer][i], tile_a, ROW_OF(warp, i), chunk, lane);               \
  }
#endif
#define LOAD_CHUNKS(buffer, chunk)                                               \
  {                                                                              \
    LOAD_A(buffer, chunk)                                                        \
    REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) {                               \
      load_columns(b[buffer][j], tile_b, warp_col + j * 16, chunk, lane);        \
    }                                                                            \
  }
