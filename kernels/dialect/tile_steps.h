      // A part of kernels with tiles (dialect/matrix_tiles.h): begins to copy A and B of step
      // first_step + s.
      // `padding` replaces elements outside of images; weights are those of the channels from
      // channel0 on.
      const i32 stage = s % STAGES * STAGE_BYTES;
#if !IMAGES && !PATCH
      const i32 k = (first_step + s) * TILE_K + vector;
#if POINTWISE
      const i32 used = k < depth;
#else
      const i32 down = kh * dilation_h, right = kw * dilation_w;
#if SPREAD
      const i32 from = channel_at, line_bytes = ((width - 1) / SPREAD_W + 1) * pixel;
#else
      const i32 from = (down * width + right) * pixel + channel_at;
#endif
      for (channel_at += TILE_K; channel_at >= group_bytes; channel_at -= group_bytes) {
        if (++kw == kernel_w) {
          kw = 0;
          ++kh;
        }
      }
#endif
      REPEAT for (i32 l = 0; l < LOADS_A; ++l) {
        const i32 r = t / VECTORS + l * (ITEMS / VECTORS);
#if POINTWISE
        const i32 inside = used && row0 + r < end_row;
        const i64 at = (i64)(row0 + r) * pixel + k;
#else
        const i32 h = top[l] + down, w = left[l] + right;
#if SPREAD
        const i32 line = h / SPREAD_H, column = w / SPREAD_W;
        const i32 inside = k < depth && h >= 0 && h < height && w >= 0 && w < width &&
                           line * SPREAD_H == h && column * SPREAD_W == w;
        const i64 at = base[l] + (i64)line * line_bytes + column * pixel + from;
#else
        const i32 inside = k < depth && h >= 0 && h < height && w >= 0 && w < width;
        const i64 at = base[l] + from;
#endif
#endif
        LOCAL_PTR u8* to = memory + stage + TILE_AT(r, vector >> 4) + (vector & 15);
#ifdef ELEMENT_BYTES
        // Padding of floats is 0. Other taps read the same bytes again, from the first cache unless
        // WHOLE_CHUNKS.
        GLOBAL const u8* source = BYTES_AT(x, 0) + at;
#if WHOLE_CHUNKS
        COPY_CHUNK_INSIDE(to, source, inside);
#else
        COPY_INSIDE(to, source, VECTOR, inside);
#endif
#else
        if (inside) {
          GLOBAL const u8* source = BYTES_AT(x, 0) + at;
          // Other taps read the same bytes again, from the first cache.
#if VECTOR == 16 && POINTWISE
          COPY_CHUNK(to, source);
#else
          COPY_BYTES(to, source, VECTOR);
#endif
        } else {
          REPEAT for (i32 i = 0; i < VECTOR; i += 4) *(LOCAL_PTR u32*)(to + i) = padding;
        }
#endif
      }
#endif
      REPEAT for (i32 l = 0; l < LOADS_B; ++l) {
        const i32 e = t + l * ITEMS, r = e / CHUNKS, chunk = e % CHUNKS;
#if PATCH
        const i32 place = weight_places[s % PATCH_STEPS * CHUNKS + chunk];
        const i32 at = place < 0 ? packed_depth : place + s / PATCH_STEPS * PATCH_BLOCK;
#else
        const i32 at = (first_step + s) * TILE_K + chunk * 16;
#endif
        const i32 channel = col0 + CHANNEL_OF(r);
        LOCAL_PTR u8* to = memory + stage + TILE_A_BYTES + TILE_AT(r, chunk);
        if (channel < group_out && at < packed_depth) {
          GLOBAL const u8* source =
              BYTES_AT(weights, 0) + (i64)(channel0 + channel) * packed_depth + at;
          COPY_CHUNK(to, source);
        } else {
          REPEAT for (i32 i = 0; i < 16; i += 4) *(LOCAL_PTR u32*)(to + i) = 0;
        }
      }
