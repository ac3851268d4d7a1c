// Tiles of blas/gemm.h and quant/gemm.h: a group of SIDE x SIDE items computes TILE x TILE elements,
// in steps of TILE_K of the depth. An item computes WORK x WORK of them, and loads LOADS elements of
// each operand in a step.
#include "math/group_side.h"
#if TILE > 8 * SIDE
#undef TILE
#define TILE (8 * SIDE)
#endif
#define TILE_K 16
#define WORK (TILE / SIDE)
#define LOADS (TILE * TILE_K / (SIDE * SIDE))
// PoCL vectorises across the items of a group and cannot do so in unrolled loops (5 times slower).
#if GEMM_UNROLL
#define REPEAT UNROLL
#else
#define REPEAT
#endif
