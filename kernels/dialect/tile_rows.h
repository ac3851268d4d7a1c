  // A part of kernels with tiles (dialect/matrix_tiles.h): the rows of A whose vectors this item
  // copies in all steps, those from row0 on. The first of these steps is `first_step`.
  const i32 vector = t % VECTORS * VECTOR;
#if !POINTWISE
  i64 base[LOADS_A];
  i32 top[LOADS_A], left[LOADS_A];
  REPEAT for (i32 l = 0; l < LOADS_A; ++l) {
    const i32 row = row0 + t / VECTORS + l * (ITEMS / VECTORS);
    const i32 line = row / out_width;
    const i32 image = line / out_height;
    const i32 h = (line - image * out_height) * stride_h - pad_h;
    left[l] = (row - line * out_width) * stride_w - pad_w;
    top[l] = row < end_row ? h : -(1 << 28);
#if SPREAD
    base[l] = (i64)image * ((height - 1) / SPREAD_H + 1) * ((width - 1) / SPREAD_W + 1) * pixel +
              group * group_bytes;
#else
    base[l] = (((i64)image * height + h) * width + left[l]) * pixel + group * group_bytes;
#endif
  }
  // The tap of the vector, and its place among the channels.
  const i32 start = first_step * TILE_K + vector;
  i32 kh = start / group_bytes / kernel_w;
  i32 kw = start / group_bytes - kh * kernel_w;
  i32 channel_at = start % group_bytes;
#endif
