//! types: device
//! tests: library
// y[b, c, r] = x[b, r, c] for x [batch, rows, columns]. Rows begin at multiples of x_row in x and
// of y_row in y. A group of TILE x DEPTH items moves a tile of TILE x TILE through local memory, so
// that reads and writes are of neighbours.
#include "math/group_side.h"
#if SIDE > 1
#define TILE (2 * SIDE)
#define DEPTH (SIDE / 2)
#else
#define TILE 1
#define DEPTH 1
#endif
#define MOVES (TILE / DEPTH)

KERNEL(transpose_tiles, ARG(i64, rows), ARG(i64, columns), ARG(i64, x_row), ARG(i64, y_row),
       ARG(i64, column_tiles), IN(MItype, x), OUT(MOtype, y)) {
  // One element of padding avoids bank conflicts.
  LOCAL Acctype tile[TILE][TILE + 1];
  const i32 tx = LOCAL_ID(0), ty = LOCAL_ID(1);
  const i32 tile_row = (i32)GROUP_ID(0) / (i32)column_tiles;
  const i64 r0 = (i64)tile_row * TILE, c0 = (i64)((i32)GROUP_ID(0) - tile_row * column_tiles) * TILE;
  const i32 rows_left = (i32)(rows - r0 < TILE ? rows - r0 : TILE);
  const i32 columns_left = (i32)(columns - c0 < TILE ? columns - c0 : TILE);
  i64 at = GROUP_ID(1) * rows * x_row + (r0 + ty) * x_row + c0 + tx;
  // All loads of an item are made before one is waited for.
  Acctype v[MOVES];
  UNROLL for (i32 i = 0; i < MOVES; ++i) {
    const i32 inside = ty + DEPTH * i < rows_left && tx < columns_left;
    v[i] = inside ? LOAD(MItype, x, at) : (Acctype)0;
    at += DEPTH * x_row;
  }
  UNROLL for (i32 i = 0; i < MOVES; ++i) tile[ty + DEPTH * i][tx] = v[i];
  BARRIER;
  at = GROUP_ID(1) * columns * y_row + (c0 + ty) * y_row + r0 + tx;
  UNROLL for (i32 i = 0; i < MOVES; ++i) {
    const i32 inside = ty + DEPTH * i < columns_left && tx < rows_left;
    if (inside) STORE(MOtype, y, at, tile[tx][ty + DEPTH * i]);
    at += DEPTH * y_row;
  }
}
#undef TILE
#undef DEPTH
#undef MOVES

// The same where an image has at most 8 rows or at most 8 columns: their elements lie x_few and
// y_few apart, those of the `many` others x_many and y_many. An item moves those of one of the
// many.
KERNEL(transpose_few, ARG(i64, many), ARG(i64, few), ARG(i64, x_many), ARG(i64, x_few),
       ARG(i64, y_many), ARG(i64, y_few), ARG(i64, x_image), ARG(i64, y_image), IN(MItype, x),
       OUT(MOtype, y)) {
  const i64 i = (i64)GROUP_ID(0) * GROUP + LOCAL_ID(0);
  if (i >= many) return;
  const i64 from = GROUP_ID(1) * x_image + i * x_many, to = GROUP_ID(1) * y_image + i * y_many;
  Acctype v[8];
  UNROLL for (i32 k = 0; k < 8; ++k) {
    if (k < few) v[k] = LOAD(MItype, x, from + k * x_few);
  }
  UNROLL for (i32 k = 0; k < 8; ++k) {
    if (k < few) STORE(MOtype, y, to + k * y_few, v[k]);
  }
}
