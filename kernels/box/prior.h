//! types: once
// The priors of a map of cells, [2, cells, per_cell, 4]: boxes around the centres of the cells, in
// shares of the image, and their variances. sizes has the widths of the boxes of a cell, then their
// heights, in pixels.
KERNEL(prior_boxes, ARG(i64, count), ARG(i64, per_cell), ARG(i64, columns), ARG(Acctype, offset),
       ARG(Acctype, step_w), ARG(Acctype, step_h), ARG(Acctype, image_w), ARG(Acctype, image_h),
       ARG(i32, clip), IN(f32, sizes), IN(f32, variances), OUT(f32, priors)) {
  FOR_EACH_GROUP(i, count) {
    const Index cell = i / per_cell, k = i - cell * per_cell, row = cell / columns;
    const float x = ((float)(cell - row * columns) + offset) * step_w;
    const float y = ((float)row + offset) * step_h;
    const float half_w = LOAD(f32, sizes, k) / 2, half_h = LOAD(f32, sizes, per_cell + k) / 2;
    for (i32 j = 0; j < 4; ++j) {
      const float at = j == 0 ? x - half_w : j == 1 ? y - half_h : j == 2 ? x + half_w : y + half_h;
      const float v = at / (j % 2 == 0 ? image_w : image_h);
      STORE(f32, priors, i * 4 + j, clip ? v < 0 ? 0.0f : v > 1 ? 1.0f : v : v);
      STORE(f32, priors, (count + i) * 4 + j, LOAD(f32, variances, j));
    }
  }
}
