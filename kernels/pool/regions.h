//! types: once
// Regions of interest on a feature map. rois has 5 values for each region: the image, then x and y
// of the first and of the last corner, in pixels of the network's input. regions has 5, too: image,
// first column, first row, number of columns and of rows. The image is -1 if rois has an invalid
// one.
//
// Coordinates are clamped to +-2^22, so that their integers and sums are exact in float; NaN
// becomes the lower end.
DEVICE_FN float region_round(float v) {
  const float high = v < 4194304.0f ? v : 4194304.0f;
  return (float)round_f32(v > -4194304.0f ? high : -4194304.0f);
}

DEVICE_FN float region_image(float image, i64 images) {
  return image > -1.0f && image < (float)images ? (float)(i32)image : -1.0f;
}

// Fast R-CNN: coordinates are scaled and then rounded; the last column and row belong to the
// region.
KERNEL(roi_regions, ARG(i64, count), ARG(i64, images), ARG(Acctype, scale), IN(f32, rois),
       OUT(f32, regions)) {
  FOR_EACH(i, count) {
    const float x0 = region_round(LOAD(f32, rois, 5 * i + 1) * scale);
    const float y0 = region_round(LOAD(f32, rois, 5 * i + 2) * scale);
    const float columns = region_round(LOAD(f32, rois, 5 * i + 3) * scale) - x0 + 1.0f;
    const float rows = region_round(LOAD(f32, rois, 5 * i + 4) * scale) - y0 + 1.0f;
    STORE(f32, regions, 5 * i, region_image(LOAD(f32, rois, 5 * i), images));
    STORE(f32, regions, 5 * i + 1, x0);
    STORE(f32, regions, 5 * i + 2, y0);
    STORE(f32, regions, 5 * i + 3, columns > 1.0f ? columns : 1.0f);
    STORE(f32, regions, 5 * i + 4, rows > 1.0f ? rows : 1.0f);
  }
}

// R-FCN: coordinates are rounded and then scaled.
KERNEL(psroi_regions, ARG(i64, count), ARG(i64, images), ARG(Acctype, scale), IN(f32, rois),
       OUT(f32, regions)) {
  FOR_EACH(i, count) {
    const float x0 = region_round(LOAD(f32, rois, 5 * i + 1)) * scale;
    const float y0 = region_round(LOAD(f32, rois, 5 * i + 2)) * scale;
    const float columns = (region_round(LOAD(f32, rois, 5 * i + 3)) + 1.0f) * scale - x0;
    const float rows = (region_round(LOAD(f32, rois, 5 * i + 4)) + 1.0f) * scale - y0;
    STORE(f32, regions, 5 * i, region_image(LOAD(f32, rois, 5 * i), images));
    STORE(f32, regions, 5 * i + 1, x0);
    STORE(f32, regions, 5 * i + 2, y0);
    STORE(f32, regions, 5 * i + 3, columns > 0.1f ? columns : 0.1f);
    STORE(f32, regions, 5 * i + 4, rows > 0.1f ? rows : 0.1f);
  }
}

// record: 1, the index and the image of the first region with an invalid image. It is not changed
// if there is none or if record[0] is 1 already. One work item.
KERNEL(regions_check, ARG(i64, n), ARG(i64, count), IN(f32, rois), IN(f32, regions),
       OUT(f32, record)) {
  FOR_EACH_GROUP(g, n) {
    Index bad = count;
    for (Index i = count - 1; i >= 0; --i) bad = LOAD(f32, regions, 5 * i) < 0 ? i : bad;
    if (bad < count && LOAD(f32, record, g) == 0) {
      STORE(f32, record, 0, 1.0f);
      STORE(f32, record, 1, (float)bad);
      STORE(f32, record, 2, LOAD(f32, rois, 5 * bad));
    }
  }
}
