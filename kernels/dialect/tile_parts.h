  // A part of kernels with tiles (dialect/matrix_tiles.h) whose depth `parts` work groups divide:
  // each writes its sums [PARTS_M][PARTS_N][4] to `partial`, and the last one (dialect/arrivals.h)
  // continues with the sums of all parts, which are added in their order. The counter of the tile
  // in `arrived` is 0 before the launch, and again behind it.
  //
  // On processors sums are read and written one by one: with those of four columns at once, as on
  // GPUs, PoCL 3.1 loses some of them (FloatProductTest.GroupsOfRows shows it).
  const i64 tile = GROUP_ID(2) * tiles + GROUP_ID(0);
#if MATRIX_UNITS
  GLOBAL float4* all_sums = (GLOBAL float4*)BYTES_AT(partial, 0) +
                            tile * parts * (PARTS_M * PARTS_N * ITEMS) + t;
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      all_sums[((part * PARTS_M + i) * PARTS_N + j) * ITEMS] =
          make_float4(sum[i][j][0], sum[i][j][1], sum[i][j][2], sum[i][j][3]);
    }
  }
#else
  GLOBAL float* all_sums = (GLOBAL float*)BYTES_AT(partial, 0) +
                           tile * parts * (PARTS_M * PARTS_N * ITEMS * 4) + t;
  for (i32 k = 0; k < PARTS_M * PARTS_N * 4; ++k) {
    all_sums[(part * PARTS_M * PARTS_N * 4 + k) * ITEMS] =
        sum[k / 4 / PARTS_N][k / 4 % PARTS_N][k % 4];
  }
#endif
  // The tiles in local memory are not read any more.
  LOCAL_PTR i32* is_last = (LOCAL_PTR i32*)memory;
  COPY_WAIT(0);
  BARRIER;
  if (t == 0) {
    is_last[0] = ARRIVE(arrived + AT(arrived, tile)) == parts - 1;
    if (is_last[0]) STORE(i32, arrived, tile, 0);
  }
  BARRIER;
  if (!is_last[0]) return;
#if MATRIX_UNITS
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      REPEAT for (i32 e = 0; e < 4; ++e) sum[i][j][e] = 0;
    }
  }
  // Several parts are read before the first one is used.
  _Pragma("unroll 4") for (i32 p = 0; p < parts; ++p) {
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
      REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
        const float4 v = all_sums[((p * PARTS_M + i) * PARTS_N + j) * ITEMS];
        sum[i][j][0] += v.x;
        sum[i][j][1] += v.y;
        sum[i][j][2] += v.z;
        sum[i][j][3] += v.w;
      }
    }
  }
#else
  for (i32 k = 0; k < PARTS_M * PARTS_N * 4; ++k) {
    float v = 0;
    for (i32 p = 0; p < parts; ++p) v += all_sums[(p * PARTS_M * PARTS_N * 4 + k) * ITEMS];
    sum[k / 4 / PARTS_N][k / 4 % PARTS_N][k % 4] = v;
  }
#endif
