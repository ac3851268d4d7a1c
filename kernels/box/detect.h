//! types: float
// Detections of SSD. Boxes, priors and results are float in nets of every type.

// A box of a code, relative to a prior, [images, priors, classes, 4]. `code` is
// PriorBoxParameter.CodeType. priors is [2, priors, 4]: boxes and their variances.
KERNEL(box_decode, ARG(i64, count), ARG(i64, priors_count), ARG(i64, classes), ARG(i32, code),
       ARG(i32, encoded), IN(MItype, x), IN(f32, priors), OUT(f32, boxes)) {
  FOR_EACH_GROUP(i, count) {
    const Index prior = i / classes % priors_count;
    const Index at = prior * 4, variance = (priors_count + prior) * 4;
    const float px0 = LOAD(f32, priors, at), py0 = LOAD(f32, priors, at + 1);
    const float px1 = LOAD(f32, priors, at + 2), py1 = LOAD(f32, priors, at + 3);
    const float width = px1 - px0, height = py1 - py0;
    const float a = (float)LOAD(MItype, x, i * 4) *
                    (encoded ? 1.0f : LOAD(f32, priors, variance));
    const float b = (float)LOAD(MItype, x, i * 4 + 1) *
                    (encoded ? 1.0f : LOAD(f32, priors, variance + 1));
    const float c = (float)LOAD(MItype, x, i * 4 + 2) *
                    (encoded ? 1.0f : LOAD(f32, priors, variance + 2));
    const float d = (float)LOAD(MItype, x, i * 4 + 3) *
                    (encoded ? 1.0f : LOAD(f32, priors, variance + 3));
    float x0 = px0 + a, y0 = py0 + b, x1 = px1 + c, y1 = py1 + d;
    if (code == 2) {
      const float cx = a * width + (px0 + px1) / 2, cy = b * height + (py0 + py1) / 2;
      const float half_width = (float)EXP((Acctype)c) * width / 2;
      const float half_height = (float)EXP((Acctype)d) * height / 2;
      x0 = cx - half_width;
      y0 = cy - half_height;
      x1 = cx + half_width;
      y1 = cy + half_height;
    } else if (code == 3) {
      x0 = px0 + a * width;
      y0 = py0 + b * height;
      x1 = px1 + c * width;
      y1 = py1 + d * height;
    }
    STORE(f32, boxes, i * 4, x0);
    STORE(f32, boxes, i * 4 + 1, y0);
    STORE(f32, boxes, i * 4 + 2, x1);
    STORE(f32, boxes, i * 4 + 3, y1);
  }
}

// The first lists for box_merge, [images, classes, blocks, block]: the scores above `threshold` of
// each class and each block of priors, sorted. scores is [images, priors, classes]. The background
// has none. Neighbouring work items read neighbouring classes.
KERNEL(box_candidates, ARG(i64, n), ARG(i64, priors), ARG(i64, classes), ARG(i64, blocks),
       ARG(i64, block), ARG(i64, background), ARG(Acctype, threshold), IN(MItype, scores),
       OUT(f32, keys), OUT(i32, ids), OUT(i32, counts)) {
  FOR_EACH_GROUP(i, n) {
    const Index c = i % classes, part = i / classes, image = part / blocks;
    const Index b = part - image * blocks, list = (image * classes + c) * blocks + b;
    const Index end = (b + 1) * block < priors ? (b + 1) * block : priors;
    Index count = 0;
    for (Index p = b * block; c != background && p < end; ++p) {
      const float v = (float)LOAD(MItype, scores, (image * priors + p) * classes + c);
      if (v > (float)threshold) {
        Index k = count;
        for (; k > 0 && LOAD(f32, keys, list * block + k - 1) < v; --k) {
          STORE(f32, keys, list * block + k, LOAD(f32, keys, list * block + k - 1));
          STORE(i32, ids, list * block + k, LOAD(i32, ids, list * block + k - 1));
        }
        STORE(f32, keys, list * block + k, v);
        STORE(i32, ids, list * block + k, (i32)(c * priors + p));
        count += 1;
      }
    }
    STORE(i32, counts, list, (i32)count);
  }
}
