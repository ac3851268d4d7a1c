//! types: float
// Moves values back to the positions from which a MAX pooling took them (SegNet). x and mask are
// [planes, height, width], y is [planes, out_height, out_width]; mask holds h out_width + w, or a
// negative number for a value that is dropped. If several values have the same target, the last one
// wins. reach limits the search for them: see resize/reach.h.
DEVICE_FN i32 unpool_home(i32 at, i32 extent, i32 out_extent) { return at * extent / out_extent; }

// A plane whose mask points outside gives NaN.
KERNEL(unpool_forward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), IN(MItype, x), IN(f32, mask), IN(i32, reach), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, planes * out_height, c, out_width) {
    const Index plane = r / out_height;
    const i32 own_h = (i32)(r - plane * out_height), own = own_h * out_width + (i32)c;
    const i32 far = LOAD(i32, reach, plane);
    const i32 home_h = unpool_home(own_h, height, out_height);
    const i32 home_w = unpool_home((i32)c, width, out_width);
    const i32 known = far < 1 << 30;
    const i32 h0 = home_h > far ? home_h - far : 0, w0 = home_w > far ? home_w - far : 0;
    const i32 h1 = home_h < height - far ? home_h + far + 1 : height;
    const i32 w1 = home_w < width - far ? home_w + far + 1 : width;
    Acctype v = 0;
    for (i32 h = h0; known && h < h1; ++h) {
      for (i32 w = w0; w < w1; ++w) {
        const Index at = (plane * height + h) * width + w;
        v = (i32)LOAD(f32, mask, at) == own ? LOAD(MItype, x, at) : v;
      }
    }
    STORE(MOtype, y, r * out_width + c, known ? v : (Acctype)as_f32(0x7fc00000u));
  }
}

// The gradient of the element that the value went to, or 0 if a later value replaced it.
KERNEL(unpool_backward, ARG(i64, planes), ARG(i32, height), ARG(i32, width), ARG(i32, out_height),
       ARG(i32, out_width), IN(MOtype, y_diff), IN(f32, mask), IN(i32, reach), OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, planes * height, c, width) {
    const Index plane = r / height;
    const i32 own_h = (i32)(r - plane * height), own = own_h * width + (i32)c;
    const float v = LOAD(f32, mask, r * width + c);
    const i32 valid = v > -1.0f && v < (float)(out_height * out_width);
    const i32 to = valid ? (i32)v : 0, to_h = to / out_width;
    const i32 home_h = unpool_home(to_h, height, out_height);
    const i32 home_w = unpool_home(to - to_h * out_width, width, out_width);
    const i32 far = LOAD(i32, reach, plane);
    const i32 h0 = home_h > far ? home_h - far : 0, w0 = home_w > far ? home_w - far : 0;
    const i32 h1 = home_h < height - far ? home_h + far + 1 : height;
    const i32 w1 = home_w < width - far ? home_w + far + 1 : width;
    i32 last = valid && far < 1 << 30;
    for (i32 h = h0; last && h < h1; ++h) {
      for (i32 w = w0; w < w1; ++w) {
        const i32 same = (i32)LOAD(f32, mask, (plane * height + h) * width + w) == to;
        last = same && h * width + w > own ? 0 : last;
      }
    }
    const Acctype d = LOAD(MOtype, y_diff, plane * out_height * out_width + to);
    STORE(MItype, x_diff, r * width + c, last ? d : (Acctype)0);
  }
}
