// Windows on images with channels last (dialect/matrix_tiles.h): in place of the tile of A, local
// memory has the patch that the tile's results read, so that each position is copied once and not
// for each tap. A patch has at most PATCH_LINES lines of PATCH_WIDTH positions, padding included,
// with a block of channels: PATCH_CHUNKS chunks of 16 bytes. Results may belong to several images,
// whose lines follow one another. The depth is [blocks, taps, chunks]; a block takes PATCH_STEPS
// steps. If it ends within a step, weights are 0 behind its end, and A repeats its last chunk. An
// infinite element of that makes the result NaN.
// If there are several blocks, PATCH_BUFFERS is 2: one is copied while the other is used.
//
// Positions lie an odd number of chunks apart, so that the same chunk of 8 neighbours lies in 8
// different places modulo 128 bytes.
#define PATCH_PITCH ((PATCH_CHUNKS | 1) * 16)
#define PATCH_BYTES (PATCH_LINES * PATCH_WIDTH * PATCH_PITCH)
#define PATCH_BLOCK (PATCH_CHUNKS * 16)
#define COPY_PATCH(number)                                                               \
  {                                                                                      \
    LOCAL_PTR u8* to_ = patch + (number) % PATCH_BUFFERS * PATCH_BYTES;                  \
    GLOBAL const u8* from_ = BYTES_AT(x, 0) + group * group_bytes + (number) * PATCH_BLOCK; \
    for (i32 e_ = t; e_ < patch_lines * (PATCH_WIDTH * PATCH_CHUNKS); e_ += ITEMS) {     \
      const i32 position_ = e_ / PATCH_CHUNKS, part_ = e_ % PATCH_CHUNKS;                \
      const i32 line_ = lines[position_ / PATCH_WIDTH];                                  \
      const i32 w_ = position_ % PATCH_WIDTH - pad_w;                                    \
      const i32 inside_ = line_ >= 0 && w_ >= 0 && w_ < width;                           \
      GLOBAL const u8* source_ = from_ + ((i64)line_ * width + w_) * pixel + part_ * 16; \
      COPY_INSIDE(to_ + position_ * PATCH_PITCH + part_ * 16, source_, 16, inside_);     \
    }                                                                                    \
  }
// As tile_float, of a row of the tile and a chunk of the block.
#define A_FLOAT(tile, row, chunk, byte)                                                  \
  local_float((tile) + row_places[row] + places[(chunk) + ((byte) >> 4)] + ((byte) & 15))
#if MATRIX_UNITS
// As load_rows.
#define LOAD_A(buffer, chunk)                                                            \
  {                                                                                      \
    const u32 place_ = local_address(tile_a) +                                           \
                       places[(s - LEAD) % PATCH_STEPS * CHUNKS + (chunk) + (lane >> 4)]; \
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) load_matrices(a[buffer][i], place_ + own[i]); \
  }
#else
#define LOAD_A(buffer, chunk)                                                            \
  for (i32 i = 0; i < PARTS_M; ++i) {                                                    \
    a[buffer][i][0] = ROW_OF(warp, i);                                                   \
    a[buffer][i][1] = (s - LEAD) % PATCH_STEPS * CHUNKS + (chunk);                       \
  }
#endif
