//! types: float
// Position-sensitive means over the bins of regions (R-FCN): output channel o reads bin (gh, gw)
// from channel (o group + gh) group + gw. pool/regions.h computes the regions. Bins are computed in
// float, whatever the layer's type is.

// floor and ceil of v, clamped to [0, extent].
DEVICE_FN i32 psroi_first(float v, i32 extent) {
  return (i32)(v < 0 ? 0 : v < (float)extent ? v : (float)extent);
}

DEVICE_FN i32 psroi_end(float v, i32 extent) {
  const i32 whole = psroi_first(v, extent);
  return whole < extent && (float)whole < v ? whole + 1 : whole;
}

// x is [images, outputs group group, height, width], y is [regions, outputs, group, group]. An
// empty bin gives 0, a region without an image NaN.
KERNEL(psroi_pool_forward, ARG(i64, count), ARG(i64, outputs), ARG(i32, height), ARG(i32, width),
       ARG(i32, group), IN(MItype, x), IN(f32, regions), OUT(MOtype, y)) {
  FOR_EACH_GROUP(i, count) {
    const Index row = i / group, map = row / group, region = map / outputs;
    const i32 gw = (i32)(i - row * group), gh = (i32)(row - map * group);
    const Index image = (Index)LOAD(f32, regions, 5 * region);
    const float x0 = LOAD(f32, regions, 5 * region + 1), y0 = LOAD(f32, regions, 5 * region + 2);
    const float bin_w = LOAD(f32, regions, 5 * region + 3) / (float)group;
    const float bin_h = LOAD(f32, regions, 5 * region + 4) / (float)group;
    const i32 w0 = psroi_first((float)gw * bin_w + x0, width);
    const i32 h0 = psroi_first((float)gh * bin_h + y0, height);
    const i32 w1 = psroi_end((float)(gw + 1) * bin_w + x0, width);
    const i32 h1 = psroi_end((float)(gh + 1) * bin_h + y0, height);
    const Index output = map - region * outputs;
    const Index channel = (output * group + gh) * group + gw;
    const Index base = (image * outputs * group * group + channel) * height * width;
    Acctype sum = 0;
    for (i32 h = h0; image >= 0 && h < h1; ++h) {
      for (i32 w = w0; w < w1; ++w) sum += LOAD(MItype, x, base + h * width + w);
    }
    const i32 area = (h1 - h0) * (w1 - w0);
    const Acctype mean = h0 < h1 && w0 < w1 ? sum / (Acctype)area : (Acctype)0;
    STORE(MOtype, y, i, image >= 0 ? mean : (Acctype)as_f32(0x7fc00000u));
  }
}

// Gathers: x_diff is the sum over the regions in whose bin of this channel the element lies, in the
// order of the regions.
KERNEL(psroi_pool_backward, ARG(i64, count), ARG(i64, outputs), ARG(i64, region_count),
       ARG(i32, height), ARG(i32, width), ARG(i32, group), IN(MOtype, y_diff), IN(f32, regions),
       OUT(MItype, x_diff)) {
  FOR_EACH_GROUP(i, count) {
    const Index row = i / width, map = row / height, own_image = map / (outputs * group * group);
    const Index channel = map - own_image * outputs * group * group;
    const Index bins = channel / group, output = bins / group;
    const i32 w = (i32)(i - row * width), h = (i32)(row - map * height);
    const i32 gw = (i32)(channel - bins * group), gh = (i32)(bins - output * group);
    Acctype sum = 0;
    for (Index region = 0; region < region_count; ++region) {
      if ((Index)LOAD(f32, regions, 5 * region) != own_image) continue;
      const float x0 = LOAD(f32, regions, 5 * region + 1), y0 = LOAD(f32, regions, 5 * region + 2);
      const float bin_w = LOAD(f32, regions, 5 * region + 3) / (float)group;
      const float bin_h = LOAD(f32, regions, 5 * region + 4) / (float)group;
      const i32 w0 = psroi_first((float)gw * bin_w + x0, width);
      const i32 h0 = psroi_first((float)gh * bin_h + y0, height);
      const i32 w1 = psroi_end((float)(gw + 1) * bin_w + x0, width);
      const i32 h1 = psroi_end((float)(gh + 1) * bin_h + y0, height);
      if (w < w0 || w >= w1 || h < h0 || h >= h1) continue;
      const Index at = ((region * outputs + output) * group + gh) * group + gw;
      sum += LOAD(MOtype, y_diff, at) / (Acctype)((h1 - h0) * (w1 - w0));
    }
    STORE(MItype, x_diff, i, sum);
  }
}
