  // A part of conv/matrix_convolution.h with PATCH (dialect/window_patch.h): the places of the
  // tile's rows, from row0 on, and begins to copy the patch of the first block of channels.
  LOCAL u8 patch[PATCH_BUFFERS * PATCH_BYTES] __attribute__((aligned(128)));
  // For each chunk of a block: its distance from the first one of a window, and its place in a row
  // of weights, -1 behind the last tap. For each line: that of x, -1 for padding. For each row: its
  // window.
  LOCAL i32 places[PATCH_STEPS * CHUNKS], weight_places[PATCH_STEPS * CHUNKS];
  LOCAL i32 lines[PATCH_LINES], row_places[TILE_M];
  const i32 taps = depth / group_bytes;
  const i32 reach = (taps / kernel_w - 1) * dilation_h + 1;
  // The lines of an image that its windows read.
  const i32 image_lines = (out_height - 1) * stride_h + reach;
  const i32 line0 = row0 / out_width;
  const i32 first_line = line0 / out_height * image_lines + line0 % out_height * stride_h;
  const i32 last_row = (row0 + TILE_M < end_row ? row0 + TILE_M : end_row) - 1;
  const i32 line1 = last_row / out_width;
  const i32 patch_lines = line1 / out_height * image_lines + line1 % out_height * stride_h + reach -
                          first_line;
  for (i32 e = t; e < PATCH_STEPS * CHUNKS; e += ITEMS) {
    const i32 chunk = e < taps * PATCH_CHUNKS ? e : taps * PATCH_CHUNKS - 1;
    const i32 tap = chunk / PATCH_CHUNKS, part = chunk % PATCH_CHUNKS;
    const i32 down = tap / kernel_w * dilation_h, right = tap % kernel_w * dilation_w;
    places[e] = (down * PATCH_WIDTH + right) * PATCH_PITCH + part * 16;
    weight_places[e] = chunk == e ? tap * group_bytes + part * 16 : -1;
  }
  for (i32 e = t; e < patch_lines; e += ITEMS) {
    const i32 image = (first_line + e) / image_lines;
    const i32 h = (first_line + e) % image_lines - pad_h;
    lines[e] = h >= 0 && h < height ? image * height + h : -1;
  }
  for (i32 e = t; e < TILE_M; e += ITEMS) {
    const i32 row = row0 + e < last_row ? row0 + e : last_row;
    const i32 line = row / out_width;
    const i32 down =
        line / out_height * image_lines + line % out_height * stride_h - first_line;
    row_places[e] = (down * PATCH_WIDTH + row % out_width * stride_w) * PATCH_PITCH;
  }
  BARRIER;
  COPY_PATCH(0)
#if MATRIX_UNITS
  i32 own[PARTS_M];
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    own[i] = row_places[ROW_OF(warp, i) + (lane >> 3 & 1) * 8 + (lane & 7)];
  }
#endif
