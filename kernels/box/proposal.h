//! types: float
// Proposals of a region proposal network. Cell (h, w) and anchor a are proposal (h width + w)
// anchors + a of an image.

// The boxes [images, cells, anchors, 4] of codes [images, 4 anchors, height, width], relative to
// anchors that are `stride` pixels apart, cut at the image; and their scores, the second half of
// scores [images, 2 anchors, height, width]. A box with a side of less than min_size times the
// image's scale has the lowest score. info has the height, width and scale of each image. Corners
// are pixels.
DEVICE_FN float cut_at(float v, float high) {
  const float low = v > 0.0f ? v : 0.0f;
  return low < high ? low : high;
}

KERNEL(proposal_boxes, ARG(i64, count), ARG(i64, anchor_count), ARG(i64, height), ARG(i64, width),
       ARG(Acctype, stride), ARG(Acctype, min_size), ARG(i64, info_stride), IN(MItype, scores),
       IN(MItype, codes), IN(f32, info), IN(f32, anchors), OUT(f32, boxes), OUT(f32, box_scores)) {
  FOR_EACH_GROUP(i, count) {
    const Index plane = height * width, per_image = plane * anchor_count, image = i / per_image;
    const Index a = i % anchor_count, cell = (i - image * per_image) / anchor_count;
    const Index row = cell / width, column = cell - row * width;
    const float x0 = LOAD(f32, anchors, a * 4) + (float)column * (float)stride;
    const float y0 = LOAD(f32, anchors, a * 4 + 1) + (float)row * (float)stride;
    const float w = LOAD(f32, anchors, a * 4 + 2) - LOAD(f32, anchors, a * 4) + 1.0f;
    const float h = LOAD(f32, anchors, a * 4 + 3) - LOAD(f32, anchors, a * 4 + 1) + 1.0f;
    const Index at = (image * anchor_count + a) * 4 * plane + cell;
    const float cx = (float)LOAD(MItype, codes, at) * w + (x0 + 0.5f * w);
    const float cy = (float)LOAD(MItype, codes, at + plane) * h + (y0 + 0.5f * h);
    const float half_w = 0.5f * ((float)EXP(LOAD(MItype, codes, at + 2 * plane)) * w);
    const float half_h = 0.5f * ((float)EXP(LOAD(MItype, codes, at + 3 * plane)) * h);
    const float right = LOAD(f32, info, image * info_stride + 1) - 1.0f;
    const float low = LOAD(f32, info, image * info_stride) - 1.0f;
    const float least = (float)min_size * LOAD(f32, info, image * info_stride + 2);
    const float bx0 = cut_at(cx - half_w, right), bx1 = cut_at(cx + half_w, right);
    const float by0 = cut_at(cy - half_h, low), by1 = cut_at(cy + half_h, low);
    const i32 large = bx1 - bx0 + 1.0f >= least && by1 - by0 + 1.0f >= least;
    const Index from = (image * 2 * anchor_count + anchor_count + a) * plane + cell;
    STORE(f32, boxes, i * 4, bx0);
    STORE(f32, boxes, i * 4 + 1, by0);
    STORE(f32, boxes, i * 4 + 2, bx1);
    STORE(f32, boxes, i * 4 + 3, by1);
    STORE(f32, box_scores, i, large ? (float)LOAD(MItype, scores, from) : lowest_f32);
  }
}
