//! types: once
// The distance within which resize/unpool.h must search for the values that a mask sends to an
// element. The home of output row h is input row h height / out_height, rounded down; likewise for
// columns. The reach of a plane is the largest distance, in rows or columns, between an input and
// the home of its output: 0 for windows of 2 x 2 with stride 2. A reach of 2^30 marks a mask that
// points outside the image.
DEVICE_FN i32 reach_distance(i32 at, i32 extent, i32 out_extent, i32 from) {
  const i32 home = at * extent / out_extent;
  return home < from ? from - home : home - from;
}

// The reach of each row of each plane.
KERNEL(reach_of_rows, ARG(i64, rows), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), IN(f32, mask), OUT(i32, reach)) {
  FOR_EACH_GROUP(r, rows) {
    const i32 h = (i32)(r % height), elements = out_height * out_width;
    i32 most = 0;
    for (i32 w = 0; w < width; ++w) {
      const float v = LOAD(f32, mask, r * width + w);
      const i32 inside = v < (float)elements;  // false for NaN
      const i32 to = inside && v > -1.0f ? (i32)v : -1, to_h = to / out_width;
      const i32 rows_off = reach_distance(to_h, height, out_height, h);
      const i32 columns_off = reach_distance(to - to_h * out_width, width, out_width, w);
      const i32 far = rows_off > columns_off ? rows_off : columns_off;
      const i32 own = !inside ? 1 << 30 : to < 0 ? 0 : far;
      most = own > most ? own : most;
    }
    STORE(i32, reach, r, most);
  }
}

KERNEL(reach_of_planes, ARG(i64, planes), ARG(i32, height), IN(i32, rows), OUT(i32, reach)) {
  FOR_EACH_GROUP(plane, planes) {
    i32 most = 0;
    for (i32 h = 0; h < height; ++h) {
      const i32 own = LOAD(i32, rows, plane * height + h);
      most = own > most ? own : most;
    }
    STORE(i32, reach, plane, most);
  }
}

// record: 1, the plane, and the first element of its mask that points outside. It is not changed if
// there is none or if record[0] is 1 already. One work item.
KERNEL(reach_check, ARG(i64, n), ARG(i64, planes), ARG(i32, elements), ARG(i32, out_elements),
       IN(i32, reach), IN(f32, mask), OUT(f32, record)) {
  FOR_EACH_GROUP(g, n) {
    Index bad = planes;
    for (Index i = planes - 1; i >= 0; --i) bad = LOAD(i32, reach, i) < 1 << 30 ? bad : i;
    if (bad < planes && LOAD(f32, record, g) == 0) {
      float value = 0;
      for (i32 i = elements - 1; i >= 0; --i) {
        const float v = LOAD(f32, mask, bad * elements + i);
        value = v < (float)out_elements ? value : v;
      }
      STORE(f32, record, 0, 1.0f);
      STORE(f32, record, 1, (float)bad);
      STORE(f32, record, 2, value);
    }
  }
}
