//! types: device
//! tests: library
#include "dialect/codes.h"
#define LONG_SUMS (CODE_BYTES == 2)
#include "math/channel_factor.h"
// quant/windows.h for small windows without slopes, sums and dilation: an item computes the
// channels of a word, 4 or 2, at ROWS x 2 positions, for which it reads each code of x once. Codes
// of 8 bits are transposed, so that a word has four neighbours of one channel: an instruction
// multiplies a row of the window. Defines: MATRIX_UNITS (as dialect/matrix.h), CODE_BYTES,
// KERNEL_H, KERNEL_W (at most 4), STRIDE_H, STRIDE_W, ROWS.
#define CODES_AT(p, i) (*(GLOBAL const u32*)BYTES_AT(p, i))
#define CODE(codes, i) ((i32)((codes) >> (i) * 8 * CODE_BYTES & MOST_CODE))
#if MATRIX_UNITS
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif
#define ZERO_WEIGHT (CODE_BYTES == 1 ? 128 : 32768)
// Positions of x that a row of windows reads; whether one word has the taps of both columns.
#define READ_W (STRIDE_W + KERNEL_W)
#define SHARED_WORD (READ_W <= 4)
#define READ_H ((ROWS - 1) * STRIDE_H + KERNEL_H)

KERNEL(window_columns, ARG(i64, blocks), FOLD(i32, channels), FOLD(i32, height), FOLD(i32, width),
       FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, blocks_h), FOLD(i32, blocks_w),
       ARG(i32, pad_h), ARG(i32, pad_w), ARG(i32, y_row), ARG(u32, padding), ARG(i32, low),
       ARG(i32, high), IN(MItype, x), IN(MItype, weights), IN(i64, bias), IN(i32, multiplier),
       IN(i32, shift), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, blocks, lane, channels / WORD_CODES) {
    const Index line = r / blocks_w, image = line / blocks_h;
    const i32 out_h0 = (i32)(line - image * blocks_h) * ROWS;
    const i32 out_w0 = (i32)(r - line * blocks_w) * 2;
    const i32 h0 = out_h0 * STRIDE_H - pad_h, w0 = out_w0 * STRIDE_W - pad_w;
    const i32 c0 = (i32)lane * WORD_CODES;
    const i64 from = (i64)image * height * width * channels + c0;
    const i64 to = (((i64)image * out_height + out_h0) * out_width + out_w0) * y_row + c0;
    // Weights, as bytes of a row of the window or one by one.
#if CODE_BYTES == 1
    u32 factors[KERNEL_H][4];
#else
    i32 factors[KERNEL_H][KERNEL_W][WORD_CODES];
#endif
    UNROLL for (i32 kh = 0; kh < KERNEL_H; ++kh) {
#if CODE_BYTES == 1
      u32 taps[4];
      UNROLL for (i32 kw = 0; kw < 4; ++kw) {
        taps[kw] = kw < KERNEL_W
                       ? CODES_AT(weights, (kh * KERNEL_W + kw) * channels + c0) ^ 0x80808080u
                       : 0;
      }
      transpose_bytes(factors[kh], taps);
#else
      UNROLL for (i32 kw = 0; kw < KERNEL_W; ++kw) {
        const u32 taps = CODES_AT(weights, (kh * KERNEL_W + kw) * channels + c0);
        UNROLL for (i32 i = 0; i < WORD_CODES; ++i) {
          factors[kh][kw][i] = CODE(taps, i) - ZERO_WEIGHT;
        }
      }
#endif
    }
    ChannelFactor factor[WORD_CODES];
    const i32 least = clamp_i32(low + y_zero, 0, MOST_CODE);
    const i32 most = clamp_i32(high + y_zero, 0, MOST_CODE);
    i32 special = 0;
    UNROLL for (i32 i = 0; i < WORD_CODES; ++i) {
      factor[i] = channel_factor(LOAD(i64, bias, c0 + i), LOAD(i32, multiplier, c0 + i),
                                 LOAD(i32, shift, c0 + i), y_zero,
                                 (i64)(KERNEL_H * KERNEL_W) << (CODE_BYTES == 1 ? 15 : 31),
                                 low >= 0 || y_zero == 0);
      if (IS_GENERAL(factor[i]) || IS_SPECIAL(factor[i])) special = 1;
    }
    const u32 outside = padding;
    const i32 writes_w = out_w0 + 1 < out_width ? 2 : 1;
    // A part of a larger array may begin anywhere.
    if (((u64)BYTES_AT(y, to) & 3) != 0 || y_row % WORD_CODES != 0) special = 1;
    if (special) {
      // One after the other, which is rare.
      ROLLED for (i32 e = 0; e < ROWS * 2 * WORD_CODES; ++e) {
        const i32 row = e / (2 * WORD_CODES), column = e / WORD_CODES % 2, i = e % WORD_CODES;
        const i32 c = c0 + i;
        if (out_h0 + row >= out_height || column >= writes_w) continue;
        Sum v = with_bias(0, LOAD(i64, bias, c));
        ROLLED for (i32 tap = 0; tap < KERNEL_H * KERNEL_W; ++tap) {
          const i32 h = h0 + row * STRIDE_H + tap / KERNEL_W;
          const i32 w = w0 + column * STRIDE_W + tap % KERNEL_W;
          const i32 inside = h >= 0 && h < height && w >= 0 && w < width;
          const i64 at = from + ((i64)h * width + w) * channels + i;
          const i32 code = inside ? (i32)LOAD(MItype, x, at) + x_zero : (i32)padding & MOST_CODE;
          v += (Sum)code * ((i32)LOAD(MItype, weights, tap * channels + c) + weights_zero -
                            ZERO_WEIGHT);
        }
        const i64 q = special_code(v, LOAD(i32, multiplier, c), LOAD(i32, shift, c));
        STORE(MOtype, y, to + ((i64)row * out_width + column) * y_row + i,
              (Acctype)(q < low ? low : q > high ? high : q));
      }
    } else {
      // Columns beyond an edge are read at the edge.
      i64 column[READ_W];
      u32 mask[READ_W];
      UNROLL for (i32 right = 0; right < READ_W; ++right) {
        const i32 w = w0 + right;
        mask[right] = w >= 0 && w < width ? ~(u32)0 : 0;
        column[right] = from + (i64)h0 * (width * channels) + clamp_i32(w, 0, width - 1) * channels;
      }
      Sum sum[ROWS][2][WORD_CODES];
      UNROLL for (i32 row = 0; row < ROWS; ++row) {
        UNROLL for (i32 i = 0; i < WORD_CODES; ++i) sum[row][0][i] = sum[row][1][i] = 0;
      }
      UNROLL for (i32 down = 0; down < READ_H; ++down) {
        const i32 h = h0 + down;
        u32 v[READ_W];
        UNROLL for (i32 right = 0; right < READ_W; ++right) v[right] = outside;
        if (h >= 0 && h < height) {
          UNROLL for (i32 right = 0; right < READ_W; ++right) {
            v[right] = (CODES_AT(x, column[right] + (i64)down * (width * channels)) & mask[right]) |
                       (outside & ~mask[right]);
          }
        }
#if CODE_BYTES == 1
        u32 words[2][4], rows[4];
        UNROLL for (i32 k = 0; k < 4; ++k) rows[k] = k < READ_W ? v[k] : 0;
        transpose_bytes(words[0], rows);
#if !SHARED_WORD
        UNROLL for (i32 k = 0; k < 4; ++k) rows[k] = STRIDE_W + k < READ_W ? v[STRIDE_W + k] : 0;
        transpose_bytes(words[1], rows);
#endif
#endif
        UNROLL for (i32 kh = 0; kh < KERNEL_H; ++kh) {
          if (down >= kh && (down - kh) % STRIDE_H == 0 && (down - kh) / STRIDE_H < ROWS) {
            const i32 row = (down - kh) / STRIDE_H;
            UNROLL for (i32 i = 0; i < WORD_CODES; ++i) {
#if CODE_BYTES == 2
              UNROLL for (i32 kw = 0; kw < KERNEL_W; ++kw) {
                sum[row][0][i] += (i64)CODE(v[kw], i) * factors[kh][kw][i];
                sum[row][1][i] += (i64)CODE(v[STRIDE_W + kw], i) * factors[kh][kw][i];
              }
#else
              sum[row][0][i] = add_byte_products(sum[row][0][i], words[0][i], factors[kh][i]);
#if SHARED_WORD
              sum[row][1][i] =
                  add_byte_products(sum[row][1][i], words[0][i], factors[kh][i] << 8 * STRIDE_W);
#else
              sum[row][1][i] = add_byte_products(sum[row][1][i], words[1][i], factors[kh][i]);
#endif
#endif
            }
          }
        }
        // The row that is complete now.
        if (down >= KERNEL_H - 1 && (down - KERNEL_H + 1) % STRIDE_H == 0) {
          const i32 row = (down - KERNEL_H + 1) / STRIDE_H;
          UNROLL for (i32 column = 0; column < 2; ++column) {
            i32 c[WORD_CODES];
            UNROLL for (i32 i = 0; i < WORD_CODES; ++i) {
              c[i] = between(plain_code(sum[row][column][i], factor[i]), least, most);
            }
            if (out_h0 + row < out_height && column < writes_w) {
              const i64 at = to + ((i64)row * out_width + column) * y_row;
              *(GLOBAL u32*)BYTES_AT(y, at) = bounded_word(c);
            }
          }
        }
      }
    }
  }
}
#undef ROLLED
#undef Sum
#undef CODES_AT
#undef CODE
#undef ZERO_WEIGHT
#undef READ_W
#undef READ_H
#undef SHARED_WORD
#undef LONG_SUMS
