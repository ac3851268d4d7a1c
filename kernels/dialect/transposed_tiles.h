// Tiles of operands in local memory whose rows are terms of sums: element [k][i] belongs to row i
// of A, or to column i of B. A step has TERMS terms, TILE_K bytes of each row or column. Rows of
// `columns` elements lie in chunks of 16 bytes, of which 8 neighbouring rows have the same one in 8
// different places modulo 128 bytes, so that they are read at once. Comes after
// dialect/matrix_floats.h and dialect/matrix_tiles.h.
#define TERMS (TILE_K / ELEMENT_BYTES)
#define ROW_BYTES(columns) ((columns) * ELEMENT_BYTES)
#define TERM_AT(columns, k, chunk) ((k) * ROW_BYTES(columns) + (((chunk) ^ ((k) & 7)) << 4))
#define TERM_ELEMENT(columns, k, i)                                                  \
  (TERM_AT(columns, k, (i) * ELEMENT_BYTES >> 4) + ((i) * ELEMENT_BYTES & 15))
#if MATRIX_UNITS && ELEMENT_BYTES == 2
// Four matrices of 8 x 8 elements of 16 bits, transposed; `at` is a row of one of them.
DEVICE_FN void load_transposed(u32* f, LOCAL_PTR const u8* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(local_address(at)));
}
// 16 terms from k on of 16 rows of A, or 16 columns of B, from i on, in the order of
// multiply_parts.
#define LOAD_TERMS_A(f, tile, k, i)                                                          \
  load_transposed(f, (tile) + TERM_AT(TILE_M, (k) + (lane >> 4) * 8 + (lane & 7),            \
                                      ((i) >> 3) + (lane >> 3 & 1)))
#define LOAD_TERMS_B(f, tile, k, i)                                                          \
  load_transposed(f, (tile) + TERM_AT(TILE_N, (k) + (lane >> 3 & 1) * 8 + (lane & 7),        \
                                      ((i) >> 3) + (lane >> 4)))
#elif MATRIX_UNITS
// The same with 8 terms.
#define LOCAL_WORD(tile, columns, k, i) \
  (*(LOCAL_PTR const u32*)((tile) + TERM_ELEMENT(columns, k, i)))
#define LOAD_TERMS_A(f, tile, k, i)                                                          \
  UNROLL for (i32 w_ = 0; w_ < 4; ++w_) {                                                    \
    (f)[w_] = LOCAL_WORD(tile, TILE_M, (k) + lane % 4 + w_ / 2 * 4, (i) + lane / 4 + w_ % 2 * 8); \
  }
#define LOAD_TERMS_B(f, tile, k, i)                                                          \
  UNROLL for (i32 w_ = 0; w_ < 4; ++w_) {                                                    \
    (f)[w_] = LOCAL_WORD(tile, TILE_N, (k) + lane % 4 + w_ % 2 * 4, (i) + lane / 4 + w_ / 2 * 8); \
  }
#endif
