//! types: device
//! tests: library
#include "dialect/matrix.h"
#define MOST_BLOCK 64
#include "dialect/matrix_tiles.h"
#include "epilogue/residual_code.h"
#define LONG_SUMS (WIDE || CODE_BYTES == 2)
#include "math/channel_factor.h"
#if ROW_GROUPS
#include "math/row_groups.h"
#endif
#if RESIDUAL
#include "epilogue/sum_factor.h"
#endif
#if VALUES
#include "math/sum_value.h"
#endif
// Convolutions and products of codes with channels last, by matrix units:
//   y [rows, channels] = requantized x [rows, taps of the window] weights [channels, taps] + bias
// Rows are positions of images; the taps of a row are gathered from x [images, height, width,
// channels]. The third index of a work group is the group of the convolution. Weights come from
// pack_matrix. Their zero point is part of their bytes, that of x is part of the bias; see
// caffe/library/quant_arguments.hpp. Defines: TILE_M x TILE_N results of a work group of WARPS_M x
// WARPS_N warps, TILE_K (bytes of a step), STAGES (steps in local memory), VECTOR (bytes of x that
// are read at once; they belong to one position), POINTWISE (1: rows of x are rows of y's),
// CODE_BYTES, WIDE (1: sums of 64 bits), SLOPE (1: factors of their own below 0), RESIDUAL (1: the
// sum with a residual follows, whose rows are y_row elements apart; 2: also ReLU), OUT_VECTOR
// (bytes of y that are written at once), ROW_GROUPS (groups of items, see math/row_groups.h, each
// of which has weights and factors of its own, those of `channels` channels; 0: no such groups),
// VALUES (1: y are the real values of the sums, in float; there is no activation and no residual).
// Rolled loops save registers in text that is seldom needed.
#if MATRIX_UNITS
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif
// The place of a channel's factor, so that four lanes read neighbours at once; and the part of the
// sums of code k of a word.
#define FACTOR_AT(channel)                                                        \
  ((channel) / BLOCK * BLOCK + (channel) % RUN / 2 * 8 + (channel) % 2 * 4 +                \
   (channel) % BLOCK / RUN)
#define PART(block, word, k) ((block) * (BLOCK / 8) + ((word) * WORD_CODES + (k)) / 2)
#define RUN_BYTES (RUN * CODE_BYTES)
// The sums of a work item that become codes of one word of its rows.
#define WORD_SUMS (WORD_CODES * PARTS_M * 2)
#define PIECE (OUT_VECTOR < RUN_BYTES ? OUT_VECTOR : RUN_BYTES)
// The depth in bytes up to which sums of 32 bits are exact: 2^15 codes of 8 bits, 2^14 of 16 bits.
#define SLICE 32768
// No sum of a depth is larger.
#define MOST_SUM ((i64)depth << (CODE_BYTES == 1 ? 15 : 30))
#if WIDE
#define SUM_OF(i, j, e) total[i][j][e]
#elif CODE_BYTES == 2
#define SUM_OF(i, j, e) SLICE_SUM(i, j, e)
#else
#define SUM_OF(i, j, e) sum[i][j][e]
#endif
#if CODE_BYTES == 2
#define SLICE_SUM(i, j, e) \
  (((i64)high[i][j][e] << 16) + ((i64)middle[i][j][e] << 8) + (i64)low_sum[i][j][e])
#else
#define SLICE_SUM(i, j, e) sum[i][j][e]
#endif

// Bytes of a run, of which `bytes` exist, at once where they are aligned.
DEVICE_FN void store_run(GLOBAL u8* to, const u32* words, i32 bytes, i32 aligned) {
  if (aligned) {
    REPEAT for (i32 at = 0; at < RUN_BYTES; at += PIECE) {
      if (at >= bytes) return;
#if PIECE == 16
      *(GLOBAL uint4*)(to + at) =
          make_uint4(words[at / 4], words[at / 4 + 1], words[at / 4 + 2], words[at / 4 + 3]);
#elif PIECE == 8
      *(GLOBAL uint2*)(to + at) = make_uint2(words[at / 4], words[at / 4 + 1]);
#elif PIECE == 4
      *(GLOBAL u32*)(to + at) = words[at / 4];
#elif PIECE == 2
      *(GLOBAL u16*)(to + at) = (u16)(words[at / 4] >> at % 4 * 8);
#else
      to[at] = (u8)(words[at / 4] >> at % 4 * 8);
#endif
    }
    return;
  }
  REPEAT for (i32 at = 0; at < RUN_BYTES; ++at) {
    if (at < bytes) to[at] = (u8)(words[at / 4] >> at % 4 * 8);
  }
}
#if RESIDUAL
DEVICE_FN void load_run(u32* words, GLOBAL const u8* from, i32 bytes, i32 aligned) {
  REPEAT for (i32 at = 0; at < RUN_BYTES; at += 4) words[at / 4] = 0;
#if PIECE >= 4
  if (aligned) {
    REPEAT for (i32 at = 0; at < RUN_BYTES; at += PIECE) {
      if (at >= bytes) return;
#if PIECE == 16
      const uint4 v = *(GLOBAL const uint4*)(from + at);
      words[at / 4] = v.x;
      words[at / 4 + 1] = v.y;
      words[at / 4 + 2] = v.z;
      words[at / 4 + 3] = v.w;
#elif PIECE == 8
      const uint2 v = *(GLOBAL const uint2*)(from + at);
      words[at / 4] = v.x;
      words[at / 4 + 1] = v.y;
#else
      words[at / 4] = *(GLOBAL const u32*)(from + at);
#endif
    }
    return;
  }
#endif
  REPEAT for (i32 at = 0; at < RUN_BYTES; ++at) {
    if (at < bytes) words[at / 4] |= (u32)from[at] << at % 4 * 8;
  }
}
#endif
#if RESIDUAL
#define WITH_RESIDUAL(code) \
  plain_sum_code(code, CODE_AT(added[i][down], word * WORD_CODES + k), sum_factor)
#else
#define WITH_RESIDUAL(code) code
#endif
// The codes of a run: `code` is that of row part i, `down`, and channel k of a word.
#define CODES_OF_WORDS(code)                                                            \
  REPEAT for (i32 word = 0; word < RUN_BYTES / 4; ++word) {                             \
    ChannelFactor f[WORD_CODES];                                                        \
    REPEAT for (i32 k = 0; k < WORD_CODES; ++k) {                                       \
      f[k] = factors[warp_col + PART(block, word, k) * 8 + k % 2 * 4 + quad];           \
    }                                                                                   \
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) {                                          \
      REPEAT for (i32 down = 0; down < 2; ++down) {                                     \
        i32 c[WORD_CODES];                                                              \
        REPEAT for (i32 k = 0; k < WORD_CODES; ++k) c[k] = WITH_RESIDUAL((code));       \
        codes[i][down][word] = bounded_word(c);                                         \
      }                                                                                 \
    }                                                                                   \
  }

KERNEL(matrix_product, ARG(i32, rows), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), ARG(i32, kernel_w), ARG(i32, stride_h), ARG(i32, stride_w),
       ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, dilation_h), ARG(i32, dilation_w),
       ARG(i32, pixel), ARG(i32, group_bytes), ARG(i32, depth), ARG(i32, packed_depth),
       ARG(i32, group_out), ARG(i32, channels), ARG(i32, y_row), ARG(i32, column_tiles),
       ARG(u32, padding), ARG(i32, low), ARG(i32, high_bound), IN(f32, offsets), IN(MItype, x),
       IN(MItype, weights), IN(i64, bias), IN(i32, multiplier), IN(i32, shift),
       IN(i32, negative_multiplier), IN(i32, negative_shift), IN(MOtype, residual),
       ARG(i32, factor), ARG(i32, residual_factor), ARG(i32, sum_shift), ARG(i32, sum_low),
       ARG(i32, sum_high), ARG(i32, relu), ARG(Requant, rescale), OUT(MOtype, y)) {
  STAGE_MEMORY(memory);
  const i32 t = LOCAL_ID(0), lane = t & 31, warp = t >> 5;
  const i32 row_tile = (i32)GROUP_ID(0) / column_tiles;
  const i32 group = (i32)GROUP_ID(2);
#if ROW_GROUPS
  FIND_ROW_TILE(found, row_tile, TILE_M, out_height * out_width, rows)
  if (found.begin == found.end) return;
  const i32 row0 = found.begin, end_row = found.end;
  const i32 channel0 = found.group * channels + group * group_out;
#else
  const i32 row0 = row_tile * TILE_M, end_row = rows, channel0 = group * group_out;
#endif
  const i32 col0 = ((i32)GROUP_ID(0) - row_tile * column_tiles) * TILE_N;
  const i32 warp_col = warp % WARPS_N * (TILE_N / WARPS_N);
  const i32 first_step = 0;
#include "dialect/tile_rows.h"
#if CODE_BYTES == 2
  i32 high[PARTS_M][PARTS_N][4], middle[PARTS_M][PARTS_N][4], low_sum[PARTS_M][PARTS_N][4];
#else
  i32 sum[PARTS_M][PARTS_N][4];
#endif
#if WIDE
  i64 total[PARTS_M][PARTS_N][4];
#endif
  REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
    REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
      REPEAT for (i32 e = 0; e < 4; ++e) {
#if CODE_BYTES == 2
        high[i][j][e] = middle[i][j][e] = low_sum[i][j][e] = 0;
#elif !(MATRIX_UNITS == 2)
        sum[i][j][e] = 0;
#endif
#if WIDE
        total[i][j][e] = 0;
#endif
      }
    }
  }
  // Item t prepares the factor of channel t.
  const i32 own_channel = t < TILE_N ? col0 + t : group_out;
  ChannelFactor own = no_factor();
  LOCAL_PTR ChannelFactor* factors = (LOCAL_PTR ChannelFactor*)memory;
  LOCAL_PTR i32* flags = (LOCAL_PTR i32*)memory;
#if RESIDUAL
  const i32 own_zero = -low;
#else
  const i32 own_zero = y_zero;
#endif
  const i32 steps = (depth + TILE_K - 1) / TILE_K;
  for (i32 s = 0; s < steps + LEAD; ++s) {
    COPY_WAIT(LEAD - 1);
    GROUP_SEES;
    BARRIER;
    if (s < steps) {
#include "dialect/tile_steps.h"
    } else if (s == steps) {
      // From here on one step after the other leaves its memory: this one to two flags, the next
      // one to the factors of channels.
      flags = (LOCAL_PTR i32*)(memory + s % STAGES * STAGE_BYTES);
      if (t < 2) flags[t] = 0;
      if (own_channel < group_out) {
        const i32 channel = channel0 + own_channel;
        own = channel_factor(LOAD(i64, bias, channel), LOAD(i32, multiplier, channel),
                             LOAD(i32, shift, channel), own_zero, MOST_SUM,
                             low >= 0 || own_zero == 0);
      }
    } else if (s == steps + 1) {
      factors = (LOCAL_PTR ChannelFactor*)(memory + s % STAGES * STAGE_BYTES);
      if (t < TILE_N) {
        factors[FACTOR_AT(t)] = own;
        if (IS_GENERAL(own)) flags[0] = 1;
        if (IS_SPECIAL(own)) flags[1] = 1;
      }
    }
    COPY_END;
    if (s >= LEAD) {
      LOCAL_PTR const u8* tile_a = memory + (s - LEAD) % STAGES * STAGE_BYTES;
      LOCAL_PTR const u8* tile_b = tile_a + TILE_M * TILE_K;
#if CODE_BYTES == 1 && MATRIX_UNITS == 2
#include "dialect/group_steps.h"
#elif MATRIX_UNITS == 2
      const u64 b = tile_descriptor(tile_b);
      u32 low_a[PARTS_M][CHUNKS / 4][4], high_a[PARTS_M][CHUNKS / 4][4];
      REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
        REPEAT for (i32 c = 0; c < CHUNKS / 4; ++c) {
          u32 a[8];
          load_rows(a, tile_a, ROW_OF(warp, i), c * 4, lane);
          load_rows(a + 4, tile_a, ROW_OF(warp, i), c * 4 + 2, lane);
          split_words(low_a[i][c], high_a[i][c], a);
        }
      }
      GROUP_BEGIN;
      REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
        REPEAT for (i32 c = 0; c < CHUNKS / 4; ++c) {
          multiply_group_u8_s8(high[i][0], high_a[i][c], b + c * 4 + 2);
          multiply_group_u8_s8(middle[i][0], low_a[i][c], b + c * 4 + 2);
          multiply_group_u8_u8(middle[i][0], high_a[i][c], b + c * 4);
          multiply_group_u8_u8(low_sum[i][0], low_a[i][c], b + c * 4);
        }
      }
      GROUP_END(0);
#elif CODE_BYTES == 1
      // Matrix units load the chunks of the next products before they compute the last ones.
      u32 a[2][PARTS_M][4], b[2][PARTS_N / 2][4];
      LOAD_CHUNKS(0, 0)
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 2) {
        const i32 now = MATRIX_UNITS * (chunk >> 1 & 1);
        if (MATRIX_UNITS && chunk + 2 < CHUNKS) LOAD_CHUNKS(now ^ 1, chunk + 2)
        if (!MATRIX_UNITS && chunk > 0) LOAD_CHUNKS(0, chunk)
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            MULTIPLY_BYTES(sum[i][j], a[now][i], tile_a, b[now][j / 2] + j % 2 * 2, tile_b, lane);
          }
        }
      }
#else
      REPEAT for (i32 chunk = 0; chunk < CHUNKS; chunk += 4) {
        u32 b[2][PARTS_N / 2][4];
        REPEAT for (i32 j = 0; j < PARTS_N / 2; ++j) {
          load_columns(b[0][j], tile_b, warp_col + j * 16, chunk, lane);
          load_columns(b[1][j], tile_b, warp_col + j * 16, chunk + 2, lane);
        }
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          u32 a[8], low_a[4], high_a[4];
          load_rows(a, tile_a, ROW_OF(warp, i), chunk, lane);
          load_rows(a + 4, tile_a, ROW_OF(warp, i), chunk + 2, lane);
          split_words(low_a, high_a, a);
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            const u32* low_b = b[0][j / 2] + j % 2 * 2;
            const u32* high_b = b[1][j / 2] + j % 2 * 2;
            MULTIPLY_WORDS(high[i][j], middle[i][j], low_sum[i][j], a, low_a, high_a, tile_a,
                           low_b, high_b, tile_b, lane);
          }
        }
      }
#endif
#if WIDE
      const i32 done = (s - LEAD + 1) * TILE_K;
      if (done % SLICE == 0 || done >= depth) {
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 j = 0; j < PARTS_N; ++j) {
            REPEAT for (i32 e = 0; e < 4; ++e) {
              total[i][j][e] += SLICE_SUM(i, j, e);
#if CODE_BYTES == 2
              high[i][j][e] = middle[i][j][e] = low_sum[i][j][e] = 0;
#else
              sum[i][j][e] = 0;
#endif
            }
          }
        }
      }
#endif
    }
  }
#if OVERLAP
  GROUP_END(0);
#endif
  COPY_WAIT(0);
  BARRIER;
  const i32 quad = lane % 4;
#if VALUES
  REPEAT for (i32 block = 0; block < OWN_COLUMNS / BLOCK; ++block) {
    REPEAT for (i32 k = 0; k < RUN; ++k) {
      const i32 col = col0 + warp_col + block * BLOCK + quad * RUN + k;
      if (col < group_out) {
        const i32 channel = channel0 + col;
        const i64 offset = LOAD(i64, bias, channel);
        const i32 m = LOAD(i32, multiplier, channel), n = LOAD(i32, shift, channel);
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 down = 0; down < 2; ++down) {
            const i32 row = row0 + ROW_OF(warp, i) + lane / 4 + down * 8;
            const Sum v = with_bias(SUM_OF(i, PART(block, 0, k), down * 2 + k % 2), offset);
            if (row < end_row) {
              STORE(MOtype, y, (i64)row * y_row + group * group_out + col, sum_value(v, m, n));
            }
          }
        }
      }
    }
  }
#else
  GLOBAL u8* target = (GLOBAL u8*)BYTES_AT(y, 0) +
                      ((i64)row0 * y_row + group * group_out + col0) * CODE_BYTES;
  // A part of a larger array may begin anywhere.
  const i32 aligned = ((u64)target & (PIECE - 1)) == 0;
  // Bounds of the activation and of codes, as code - zero point. A sum has those of codes.
  const i32 least = RESIDUAL ? -y_zero : clamp_i32(low, -y_zero, MOST_CODE - y_zero);
  const i32 most =
      RESIDUAL ? MOST_CODE - y_zero : clamp_i32(high_bound, -y_zero, MOST_CODE - y_zero);
  const i32 least_code = least + y_zero, most_code = most + y_zero;
  i32 special = SLOPE || flags[1] != 0;
  const i32 plain = flags[0] == 0, bounded = least_code != 0 || most_code != MOST_CODE;
#if RESIDUAL
  const SumFactor sum_factor = sum_factor_of(own_zero, factor, residual_zero, residual_factor,
                                             sum_shift, sum_high, rescale, y_zero);
  special |= !sum_factor.plain;
  GLOBAL const u8* source = BYTES_AT(residual, 0) +
                            ((i64)row0 * y_row + group * group_out + col0) * CODE_BYTES;
  const i32 source_aligned = ((u64)source & (PIECE - 1)) == 0;
#endif
  LOCAL_PTR Sum* waiting = (LOCAL_PTR Sum*)memory;
  if (special) BARRIER;
  REPEAT for (i32 block = 0; block < OWN_COLUMNS / BLOCK; ++block) {
    const i32 run = warp_col + block * BLOCK + quad * RUN;
    const i32 bytes = (group_out - col0 - run) * CODE_BYTES;
    u32 codes[PARTS_M][2][RUN_BYTES / 4];
#if RESIDUAL
    u32 added[PARTS_M][2][RUN_BYTES / 4];
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
      REPEAT for (i32 down = 0; down < 2; ++down) {
        const i32 row = ROW_OF(warp, i) + lane / 4 + down * 8;
        load_run(added[i][down], source + ((i64)row * y_row + run) * CODE_BYTES,
                 row0 + row < end_row ? bytes : 0, source_aligned);
      }
    }
#endif
    if (!special && plain && !bounded) {
      CODES_OF_WORDS(plain_code(SUM_OF(i, PART(block, word, k), down * 2 + k % 2), f[k]))
    } else if (!special && plain) {
      CODES_OF_WORDS(between(plain_code(SUM_OF(i, PART(block, word, k), down * 2 + k % 2), f[k]),
                             least_code, most_code))
    } else if (!special) {
      CODES_OF_WORDS(general_code(SUM_OF(i, PART(block, word, k), down * 2 + k % 2), f[k],
                                  least_code, most_code))
    } else {
      // Codes of a word wait in local memory, so that the text is not repeated for each.
      REPEAT for (i32 word = 0; word < RUN_BYTES / 4; ++word) {
        REPEAT for (i32 e = 0; e < WORD_SUMS; ++e) {
          const i32 i = e % (2 * PARTS_M) / 2, down = e % 2, k = e / (2 * PARTS_M);
          waiting[e * ITEMS + t] = SUM_OF(i, PART(block, word, k), down * 2 + k % 2);
#if RESIDUAL
          waiting[(WORD_SUMS + e) * ITEMS + t] = CODE_AT(added[i][down], word * WORD_CODES + k);
#endif
        }
        ROLLED for (i32 e = 0; e < WORD_SUMS; ++e) {
          const i32 at = col0 + run + word * WORD_CODES + e / (2 * PARTS_M);
          const i32 channel = channel0 + (at < group_out ? at : group_out - 1);
          const Sum v = with_bias(waiting[e * ITEMS + t], LOAD(i64, bias, channel));
          const i32 m = LOAD(i32, multiplier, channel), n = LOAD(i32, shift, channel);
#if SLOPE
          const i64 r = requantize_slope(v, m, n, LOAD(i32, negative_multiplier, channel),
                                         LOAD(i32, negative_shift, channel));
#else
          const i64 r = special_code(v, m, n);
#endif
#if RESIDUAL
          const i64 s = residual_code(r < low ? low : r > high_bound ? high_bound : r,
                                      waiting[(WORD_SUMS + e) * ITEMS + t] - residual_zero, factor,
                                      residual_factor, sum_shift, sum_low, sum_high, relu,
                                      rescale.multiplier, rescale.shift);
#else
          const i64 s = r;
#endif
          waiting[e * ITEMS + t] = (Sum)(s < least ? least : s > most ? most : s) + y_zero;
        }
        REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
          REPEAT for (i32 down = 0; down < 2; ++down) {
            i32 c[WORD_CODES];
            REPEAT for (i32 k = 0; k < WORD_CODES; ++k) {
              c[k] = (i32)waiting[((k * PARTS_M + i) * 2 + down) * ITEMS + t];
            }
            codes[i][down][word] = bounded_word(c);
          }
        }
      }
    }
    REPEAT for (i32 i = 0; i < PARTS_M; ++i) {
      REPEAT for (i32 down = 0; down < 2; ++down) {
        const i32 row = ROW_OF(warp, i) + lane / 4 + down * 8;
        store_run(target + ((i64)row * y_row + run) * CODE_BYTES, codes[i][down],
                  row0 + row < end_row ? bytes : 0, aligned);
      }
    }
  }
#endif
}
#undef ROLLED
#undef WORD_SUMS
#undef FACTOR_AT
#undef PART
#undef WITH_RESIDUAL
#undef CODES_OF_WORDS
#undef RUN_BYTES
#undef PIECE
#undef MOST_SUM
#undef LONG_SUMS
#undef SLICE
#undef SLICE_SUM
#undef SUM_OF
