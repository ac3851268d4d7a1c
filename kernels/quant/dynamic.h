//! types: once
//! tests: net
//! runs: host dynamic_planes
//! runs: device dynamic_rows
// Products of codes of 8 bits whose range is that of the values. `grid` has three numbers: the
// scale, 1 / scale, and the zero point.

// The grid of the values whose smallest and largest ones `parts` has, as in quant/min_max.h: see
// AffineRange in quant/range.hpp. Without finite values it is that of [0, 0].
KERNEL(dynamic_grid, ARG(i64, n), IN(f32, parts), OUT(f32, grid), ARG(i64, chunks)) {
  FOR_EACH_GROUP(g, n) {
    float low = 0.0f, high = 0.0f;
    for (Index i = 0; i < chunks; ++i) {
      const float a = LOAD(f32, parts, 3 * i), b = LOAD(f32, parts, 3 * i + 1);
      low = a < low ? a : low;
      high = b > high ? b : high;
    }
    // The difference of both may be infinite.
    float scale = high / 255.0f - low / 255.0f;
    if (scale < 1.1754943508222875e-38f) {
      scale = low == high ? 1.0f : 1.1754943508222875e-38f;
    }
    const float zero = -low / scale < 255.0f ? -low / scale : 255.0f;
    STORE(f32, grid, 3 * g, scale);
    STORE(f32, grid, 3 * g + 1, 1.0f / scale);
    STORE(f32, grid, 3 * g + 2, (float)round_f32(zero));
  }
}

// The code of x. NaN has the code of 0, and infinities have those of the ends of the range.
DEVICE_FN i32 dynamic_code(float x, float inverse, float zero) {
  const float v = x * inverse, low = -zero, high = 255.0f - zero;
  return code_from_real(v, low, high) + (i32)zero;
}

KERNEL(dynamic_codes, ARG(i64, n), IN(f32, x), IN(f32, grid), OUT(q8, codes)) {
  const float inverse = LOAD(f32, grid, 1), zero = LOAD(f32, grid, 2);
  FOR_EACH(i, n) { STORE(q8, codes, i, dynamic_code(LOAD(f32, x, i), inverse, zero)); }
}

// The same for images with padding, whose code is that of 0. A row is a line of an image's channel.
KERNEL(dynamic_padded, ARG(i64, rows), ARG(i64, columns), ARG(i32, height), ARG(i32, width),
       ARG(i32, padded_h), ARG(i32, pad_h), ARG(i32, pad_w), IN(f32, x), IN(f32, grid),
       OUT(q8, codes)) {
  const float inverse = LOAD(f32, grid, 1), zero = LOAD(f32, grid, 2);
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index plane = (Index)r / padded_h;
    const i32 h = (i32)(r - plane * padded_h) - pad_h, w = (i32)c - pad_w;
    const int inside = h >= 0 && h < height && w >= 0 && w < width;
    const float v = inside ? LOAD(f32, x, ((i64)plane * height + h) * width + w) : 0.0f;
    STORE(q8, codes, (i64)r * columns + c, dynamic_code(v, inverse, zero));
  }
}

// The number of a sum of products of codes with weights whose sum is `weights`.
DEVICE_FN float dynamic_value(i32 sum, i32 weights, float scale_x, float zero_x, float scale,
                              float bias) {
  const i32 v = (i32)((u32)sum - (u32)((i32)zero_x * weights));
  return (float)v * (scale_x * scale) + bias;
}

// y [rows, columns] of numbers, where row r belongs to channel r modulo `channels`. The sums have
// the order of y.
KERNEL(dynamic_rows, ARG(i64, rows), ARG(i64, columns), ARG(i32, channels), IN(i32, sums),
       IN(f32, grid), IN(f32, scale), IN(f32, bias), IN(i32, weights), OUT(f32, y)) {
  const float scale_x = LOAD(f32, grid, 0), zero_x = LOAD(f32, grid, 2);
  FOR_EACH_ROW(r, rows, c, columns) {
    const Index channel = (Index)r % channels;
    const i64 at = (i64)r * columns + c;
    STORE(f32, y, at,
          dynamic_value(LOAD(i32, sums, at), LOAD(i32, weights, channel), scale_x, zero_x,
                        LOAD(f32, scale, channel), LOAD(f32, bias, channel)));
  }
}

// The same from sums [images, columns, channels]; a group is 16 channels of an image, whose lines
// of 64 bytes stay in the first cache.
KERNEL(dynamic_planes, ARG(i64, groups), ARG(i64, columns), ARG(i32, channels), IN(i32, sums),
       IN(f32, grid), IN(f32, scale), IN(f32, bias), IN(i32, weights), OUT(f32, y)) {
  const float scale_x = LOAD(f32, grid, 0), zero_x = LOAD(f32, grid, 2);
  const Index blocks = (channels + 15) / 16;
  FOR_EACH_GROUP(g, groups) {
    const Index image = (Index)g / blocks, first = ((Index)g - image * blocks) * 16;
    const Index last = first + 16 < channels ? first + 16 : channels;
    for (Index begin = 0; begin < columns; begin += 16) {
      const Index count = begin + 16 < columns ? 16 : (Index)columns - begin;
      for (Index c = first; c < last; ++c) {
        const i32 w = LOAD(i32, weights, c);
        const float s = LOAD(f32, scale, c), b = LOAD(f32, bias, c);
        const i64 from = ((i64)image * columns + begin) * channels + c;
        const i64 to = ((i64)image * channels + c) * columns + begin;
        SIMD for (Index i = 0; i < count; ++i) {
          STORE(f32, y, to + i,
                dynamic_value(LOAD(i32, sums, from + (i64)i * channels), w, scale_x, zero_x, s, b));
        }
      }
    }
  }
}

// The same for y and sums [rows, channels].
KERNEL(dynamic_columns, ARG(i64, rows), ARG(i64, channels), IN(i32, sums), IN(f32, grid),
       IN(f32, scale), IN(f32, bias), IN(i32, weights), OUT(f32, y)) {
  const float scale_x = LOAD(f32, grid, 0), zero_x = LOAD(f32, grid, 2);
  FOR_EACH_ROW(r, rows, c, channels) {
    const i64 at = (i64)r * channels + c;
    STORE(f32, y, at,
          dynamic_value(LOAD(i32, sums, at), LOAD(i32, weights, c), scale_x, zero_x,
                        LOAD(f32, scale, c), LOAD(f32, bias, c)));
  }
}
