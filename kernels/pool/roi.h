//! types: float
// Maxima over the bins of regions (Fast R-CNN); pool/regions.h computes the regions. Bins are
// computed in float, whatever the layer's type is.
DEVICE_FN i32 roi_floor(float v) {
  const i32 whole = (i32)v;
  return (float)whole > v ? whole - 1 : whole;
}

DEVICE_FN i32 roi_ceil(float v) {
  const i32 whole = (i32)v;
  return (float)whole < v ? whole + 1 : whole;
}

// x is [images, channels, height, width], y and places are [regions, channels, pooled_h, pooled_w].
// places holds the index h width + w of each maximum; -1 for an empty bin, whose value is 0. A
// region with an invalid image gives NaN.
KERNEL(roi_pool_forward, ARG(i64, count), ARG(i64, channels), ARG(i32, height), ARG(i32, width),
       ARG(i32, pooled_h), ARG(i32, pooled_w), IN(MItype, x), IN(f32, regions), OUT(MOtype, y),
       OUT(i32, places)) {
  FOR_EACH_GROUP(i, count) {
    const Index row = i / pooled_w, map = row / pooled_h, region = map / channels;
    const i32 pw = (i32)(i - row * pooled_w), ph = (i32)(row - map * pooled_h);
    const Index image = (Index)LOAD(f32, regions, 5 * region);
    const i32 x0 = (i32)LOAD(f32, regions, 5 * region + 1);
    const i32 y0 = (i32)LOAD(f32, regions, 5 * region + 2);
    const float bin_w = LOAD(f32, regions, 5 * region + 3) / (float)pooled_w;
    const float bin_h = LOAD(f32, regions, 5 * region + 4) / (float)pooled_h;
    const i32 w0 = clamp_i32(x0 + roi_floor((float)pw * bin_w), 0, width);
    const i32 h0 = clamp_i32(y0 + roi_floor((float)ph * bin_h), 0, height);
    const i32 w1 = clamp_i32(x0 + roi_ceil((float)(pw + 1) * bin_w), 0, width);
    const i32 h1 = clamp_i32(y0 + roi_ceil((float)(ph + 1) * bin_h), 0, height);
    const Index base = (image * channels + (map - region * channels)) * height * width;
    Acctype best = h0 < h1 && w0 < w1 ? LOWEST : (Acctype)0;
    i32 place = -1;
    for (i32 h = h0; image >= 0 && h < h1; ++h) {
      for (i32 w = w0; w < w1; ++w) {
        const Acctype v = LOAD(MItype, x, base + h * width + w);
        place = v > best ? h * width + w : place;
        best = v > best ? v : best;
      }
    }
    STORE(MOtype, y, i, image >= 0 ? best : (Acctype)as_f32(0x7fc00000u));
    STORE(i32, places, i, place);
  }
}

// Gathers: x_diff is the sum over the bins whose maximum is this element, in the order of the
// regions.
KERNEL(roi_pool_backward, ARG(i64, count), ARG(i64, channels), ARG(i64, region_count),
       ARG(i32, height), ARG(i32, width), ARG(i32, pooled_h), ARG(i32, pooled_w),
       IN(MOtype, y_diff), IN(f32, regions), IN(i32, places), OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(i, count) {
    const Index row = i / width, map = row / height, own_image = map / channels;
    const Index channel = map - own_image * channels;
    const i32 w = (i32)(i - row * width), h = (i32)(row - map * height), own = h * width + w;
    Acctype sum = 0;
    for (Index region = 0; region < region_count; ++region) {
      if ((Index)LOAD(f32, regions, 5 * region) != own_image) continue;
      const float columns = LOAD(f32, regions, 5 * region + 3);
      const float rows = LOAD(f32, regions, 5 * region + 4);
      const float dx = (float)w - LOAD(f32, regions, 5 * region + 1);
      const float dy = (float)h - LOAD(f32, regions, 5 * region + 2);
      // The last bin may extend one pixel further, since its end is rounded up.
      if (dx < 0 || dy < 0 || dx > columns || dy > rows) continue;
      // Bins that may hold this element; one more on each side, since the quotients are rounded.
      const float bin_w = columns / (float)pooled_w, bin_h = rows / (float)pooled_h;
      const i32 pw0 = clamp_i32((i32)(dx / bin_w) - 1, 0, pooled_w);
      const i32 ph0 = clamp_i32((i32)(dy / bin_h) - 1, 0, pooled_h);
      const i32 pw1 = clamp_i32((i32)((dx + 1.0f) / bin_w) + 2, 0, pooled_w);
      const i32 ph1 = clamp_i32((i32)((dy + 1.0f) / bin_h) + 2, 0, pooled_h);
      const Index base = (region * channels + channel) * pooled_h * pooled_w;
      for (i32 ph = ph0; ph < ph1; ++ph) {
        for (i32 pw = pw0; pw < pw1; ++pw) {
          const Index at = base + ph * pooled_w + pw;
          sum += LOAD(i32, places, at) == own ? LOAD(MOtype, y_diff, at) : 0;
        }
      }
    }
    STORE(MItype, x_diff, i, sum);
  }
}
