// Convolutions of images in C order, x [images, CHANNELS, height, width] (dialect/matrix_tiles.h):
// in place of the tile of A, local memory has the part of an image that AREA_H x AREA_W results
// read, in words of 4 bytes. The depth of weights is [CHANNELS, KERNEL_H, WINDOW_WORDS words];
// where a window's last word sticks out, the weight is 0. Lines of half kinds need an even
// STRIDE_W.
#define PER_WORD (4 / ELEMENT_BYTES)
#define WINDOW_WORDS ((KERNEL_W + PER_WORD - 1) / PER_WORD)
#define PATCH_LINES ((AREA_H - 1) * STRIDE_H + KERNEL_H)
#define LINE_WORDS ((AREA_W - 1) * STRIDE_W / PER_WORD + WINDOW_WORDS)
#define PATCH_WORDS (CHANNELS * PATCH_LINES * LINE_WORDS)
#define STEP_WORDS (TILE_K / 4)
#define DEPTH_WORDS \
  ((CHANNELS * KERNEL_H * WINDOW_WORDS + STEP_WORDS - 1) / STEP_WORDS * STEP_WORDS)
// The first word of a result's window. Those behind the area repeat the last one.
DEVICE_FN i32 patch_place(i32 result) {
  const i32 r = result < AREA_H * AREA_W ? result : AREA_H * AREA_W - 1;
  return r / AREA_W * STRIDE_H * LINE_WORDS + r % AREA_W * STRIDE_W / PER_WORD;
}
#define A_FLOAT(tile, row, chunk, byte)                                                    \
  local_float((LOCAL_PTR const u8*)(patch + patch_place(row) +                             \
                                    places[((chunk) * 16 + (byte)) / 4]) + (byte) % 4)
#if MATRIX_UNITS
// As load_rows.
#define LOAD_A(buffer, chunk)                                                              \
  {                                                                                        \
    const i32 word_ = (s - LEAD) * STEP_WORDS + (chunk) * 4 + lane % 4;                    \
    const i32 left_ = places[word_], right_ = places[word_ + 4];                           \
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) {                                             \
      a[buffer][i][0] = patch[own[2 * i] + left_];                                         \
      a[buffer][i][1] = patch[own[2 * i + 1] + left_];                                     \
      a[buffer][i][2] = patch[own[2 * i] + right_];                                        \
      a[buffer][i][3] = patch[own[2 * i + 1] + right_];                                    \
    }                                                                                      \
  }
#else
#define LOAD_A(buffer, chunk)                                                              \
  for (i32 i = 0; i < PARTS_M; ++i) {                                                      \
    a[buffer][i][0] = ROW_OF(warp, i);                                                     \
    a[buffer][i][1] = (s - LEAD) * CHUNKS + (chunk);                                       \
  }
#endif
