// Tiles of blas/gemm.h and quant/gemm.h: a group of SIDE x SIDE items computes TILE x TILE
// elements, in steps of TILE_K of the depth. An item computes WORK x WORK of them.
#include "math/group_side.h"
#if TILE > 8 * SIDE
#undef TILE
#define TILE (8 * SIDE)
#endif
#define TILE_K 16
#define WORK (TILE / SIDE)
// PoCL vectorises across the items of a group and cannot do so in unrolled loops (5 times slower).
#if GEMM_UNROLL
#define REPEAT UNROLL
#else
#define REPEAT
#endif

#ifndef LOAD_TERM
#define LOAD_TERM(T, source, at) ((T)LOAD(MItype, source, at))
#endif

// Loads a tile of a product's A or B into `tile`, [TILE_K][TILE + 1]: rows of A, or columns of B,
// from `first` on, below `end`; of their sums the terms from k0 on, below k. Each work item, t,
// loads one of SIDE x SIDE neighbours. The matrix begins at `base`, and its rows have `pitch`
// elements: the terms of one sum if `sums` is 1, otherwise one term of all sums. `full`: no tile
// sticks out.
#define LOAD_TILE(T, tile, source, base, pitch, first, end, sums, full)   \
  REPEAT for (i32 l = 0; l < TILE * TILE_K / (SIDE * SIDE); ++l) {        \
    const i32 e_ = t + l * (SIDE * SIDE);                                 \
    const i32 i_ = (sums) ? e_ / TILE_K : e_ % TILE;                      \
    const i32 k_ = (sums) ? e_ % TILE_K : e_ / TILE;                      \
    const i32 row_ = (sums) ? (first) + i_ : k0 + k_;                     \
    const i32 column_ = (sums) ? k0 + k_ : (first) + i_;                  \
    const i64 at_ = (base) + (i64)row_ * (pitch) + column_;               \
    const i32 inside_ = (full) || ((first) + i_ < (end) && k0 + k_ < k);  \
    tile[k_][i_] = inside_ ? LOAD_TERM(T, source, at_) : 0;               \
  }

// The same for four codes of 8 bits: element [k / 4][i] of `tile` has four terms, the first one
// lowest. Codes without their zero point, so that those of weights have a sign.
#define LOAD_BYTES(tile, source, base, pitch, first, end, sums)                          \
  REPEAT for (i32 e_ = t; e_ < TILE * TILE_K / 4; e_ += SIDE * SIDE) {                   \
    const i32 i_ = (sums) ? e_ / (TILE_K / 4) : e_ % TILE;                               \
    const i32 k_ = (sums) ? e_ % (TILE_K / 4) : e_ / TILE;                               \
    u32 word_ = 0;                                                                       \
    for (i32 b_ = 0; b_ < 4; ++b_) {                                                     \
      const i32 term_ = k0 + 4 * k_ + b_;                                                \
      const i64 at_ = (base) + ((sums) ? (i64)((first) + i_) * (pitch) + term_           \
                                       : (i64)term_ * (pitch) + (first) + i_);           \
      if ((first) + i_ < (end) && term_ < k) {                                           \
        word_ |= (u32)((i32)LOAD(MItype, source, at_) & 255) << 8 * b_;                  \
      }                                                                                  \
    }                                                                                    \
    tile[k_][i_] = (i32)word_;                                                           \
  }
