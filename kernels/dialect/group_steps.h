      // A part of kernels with tiles (dialect/matrix_tiles.h): adds the products of a step to `sum`
      // by warpgroups. The first product of all sets it.
      const u64 group_b = tile_descriptor(tile_b);
      GROUP_BEGIN;
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 2) {
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          const u64 group_a = tile_descriptor(tile_a + ROW_OF(warp & ~3, i) * TILE_K);
          multiply_group(sum[i][0], group_a + chunk, group_b + chunk, s > LEAD || chunk > 0);
        }
      }
      GROUP_END(OVERLAP);
