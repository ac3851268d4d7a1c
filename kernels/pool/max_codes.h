//! types: device
//! tests: library
// Maxima of codes of images whose channels are neighbours, on devices; see max.h. An item
// computes VECTOR bytes of channels of a window, 16, 8 or 4, which divide a position. Positions
// beyond an edge are read at the edge, which changes no maximum. Defines: VECTOR, CODE_BYTES.
#define WORDS (VECTOR / 4)
#if VECTOR == 16
#define LOAD_WORDS(v, p)                            \
  const uint4 loaded = *(GLOBAL const uint4*)(p);   \
  const u32 v[4] = {loaded.x, loaded.y, loaded.z, loaded.w}
#elif VECTOR == 8
#define LOAD_WORDS(v, p)                            \
  const uint2 loaded = *(GLOBAL const uint2*)(p);   \
  const u32 v[2] = {loaded.x, loaded.y}
#else
#define LOAD_WORDS(v, p) const u32 v[1] = {*(GLOBAL const u32*)(p)}
#endif

KERNEL(max_pool_codes, FOLD(i32, channels), ARG(i64, images), FOLD(i32, height), FOLD(i32, width),
       FOLD(i32, out_height), FOLD(i32, out_width), FOLD(i32, kernel_h), FOLD(i32, kernel_w),
       FOLD(i32, stride_h), FOLD(i32, stride_w), FOLD(i32, pad_h), FOLD(i32, pad_w),
       FOLD(i32, y_row), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, images * out_height * out_width, lane, channels * CODE_BYTES / VECTOR) {
    const Index line = r / out_width, image = line / out_height;
    const i32 h0 = (i32)(line - image * out_height) * stride_h - pad_h;
    const i32 w0 = (i32)(r - line * out_width) * stride_w - pad_w;
    const i32 c = (i32)lane * (VECTOR / CODE_BYTES);
    const i64 from = (i64)image * height * width * channels + c;
    // With 8 bits: maxima of pairs whose upper bytes are the odd and the even codes.
    u32 odd[WORDS], even[WORDS];
    UNROLL for (i32 k = 0; k < WORDS; ++k) odd[k] = even[k] = 0;
    for (i32 kh = 0; kh < kernel_h; ++kh) {
      const i32 h = clamp_i32(h0 + kh, 0, height - 1);
      for (i32 kw = 0; kw < kernel_w; ++kw) {
        const i32 w = clamp_i32(w0 + kw, 0, width - 1);
        LOAD_WORDS(v, BYTES_AT(x, from + (h * width + w) * channels));
        UNROLL for (i32 k = 0; k < WORDS; ++k) {
          odd[k] = MAX_PAIRS(odd[k], v[k]);
#if CODE_BYTES == 1
          even[k] = MAX_PAIRS(even[k], v[k] << 8);
#endif
        }
      }
    }
#if CODE_BYTES == 1
    UNROLL for (i32 k = 0; k < WORDS; ++k) {
      odd[k] = (odd[k] & 0xff00ff00u) | (even[k] >> 8 & 0x00ff00ffu);
    }
#endif
    const i64 to = (i64)r * y_row + c;
    if (x_zero == y_zero && ((u64)BYTES_AT(y, to) & (VECTOR - 1)) == 0) {
#if VECTOR == 16
      *(GLOBAL uint4*)BYTES_AT(y, to) = make_uint4(odd[0], odd[1], odd[2], odd[3]);
#elif VECTOR == 8
      *(GLOBAL uint2*)BYTES_AT(y, to) = make_uint2(odd[0], odd[1]);
#else
      *(GLOBAL u32*)BYTES_AT(y, to) = odd[0];
#endif
    } else {
      // A part of a larger array may begin anywhere.
      UNROLL for (i32 k = 0; k < VECTOR / CODE_BYTES; ++k) {
        const i32 code = (i32)(odd[k * CODE_BYTES / 4] >> k * CODE_BYTES % 4 * 8 &
                               (CODE_BYTES == 1 ? 255 : 65535));
        STORE(MOtype, y, to + k, (Acctype)(code - x_zero));
      }
    }
  }
}
#undef WORDS
#undef LOAD_WORDS
