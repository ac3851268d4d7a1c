// Loads a tile of a product's A or B into `tile`, [TILE_K][size + 1]: rows of A, or columns of B,
// from `first` on, below `end`; of their sums the terms from k0 on, below k. Each of 256 work
// items, t, loads every 256th element. The matrix begins at `base`, and its rows have `pitch`
// elements: the terms of one sum if `sums` is 1, otherwise one term of all sums. `full`: no tile
// sticks out.
#define LOAD_TILE(T, tile, size, source, base, pitch, first, end, sums, full)              \
  REPEAT for (i32 l = 0; l < (size) * TILE_K / 256; ++l) {                                 \
    const i32 e_ = t + l * 256;                                                            \
    const i32 i_ = (sums) ? e_ / TILE_K : e_ % (size);                                     \
    const i32 k_ = (sums) ? e_ % TILE_K : e_ / (size);                                     \
    const i32 row_ = (sums) ? (first) + i_ : k0 + k_;                                      \
    const i32 column_ = (sums) ? k0 + k_ : (first) + i_;                                   \
    const i64 at_ = (base) + (i64)row_ * (pitch) + column_;                                \
    const i32 inside_ = (full) || ((first) + i_ < (end) && k0 + k_ < k);                   \
    tile[k_][i_] = inside_ ? (T)LOAD(MItype, source, at_) : 0;                             \
  }
