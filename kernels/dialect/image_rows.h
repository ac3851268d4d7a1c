  // A part of conv/matrix_convolution.h with IMAGES (dialect/image_tiles.h): copies the patch of
  // the tile's area, whose first result is (top, left) of `image`. Other work groups of the compute
  // unit compute meanwhile.
  LOCAL u32 patch[PATCH_WORDS];
  LOCAL u16 places[DEPTH_WORDS];
  const i32 across = (out_width + AREA_W - 1) / AREA_W;
  const i32 areas = (out_height + AREA_H - 1) / AREA_H * across;
  const i32 image = row_tile / areas;
  const i32 top = (row_tile - image * areas) / across * AREA_H;
  const i32 left = (row_tile - image * areas) % across * AREA_W;
  for (i32 e = t; e < DEPTH_WORDS; e += ITEMS) {
    const i32 line = e / WINDOW_WORDS, channel = line / KERNEL_H;
    const i32 place = (channel * PATCH_LINES + line - channel * KERNEL_H) * LINE_WORDS + e -
                      line * WINDOW_WORDS;
    places[e] = line < CHANNELS * KERNEL_H ? (u16)place : 0;
  }
  GLOBAL const u8* plain =
      BYTES_AT(x, 0) + (i64)image * CHANNELS * height * width * ELEMENT_BYTES;
  _Pragma("unroll 4") for (i32 e = t; e < PATCH_WORDS; e += ITEMS) {
    const i32 line = e / LINE_WORDS, channel = line / PATCH_LINES;
    const i32 h = top * STRIDE_H - pad_h + line - channel * PATCH_LINES;
    const i32 w = left * STRIDE_W - pad_w + (e - line * LINE_WORDS) * PER_WORD;
    const i32 from = (channel * height + h) * width + w;
    const i32 inside = h >= 0 && h < height;
    u32 word = 0;
#if ELEMENT_BYTES == 4
    if (inside && w >= 0 && w < width) word = ((GLOBAL const u32*)plain)[from];
#else
    if (inside && w >= 0 && w < width) word = ((GLOBAL const u16*)plain)[from];
    if (inside && w >= -1 && w + 1 < width) {
      word |= (u32)((GLOBAL const u16*)plain)[from + 1] << 16;
    }
#endif
    patch[e] = word;
  }
#if MATRIX_UNITS
  i32 own[2 * PARTS_M];
  REPEAT for (i32 i = 0; i < 2 * PARTS_M; ++i) {
    own[i] = patch_place(ROW_OF(warp, i / 2) + lane / 4 + i % 2 * 8);
  }
#endif
