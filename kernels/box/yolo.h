//! types: float
// Predictions of YOLO: of each cell and anchor x, y, width, height, the score of an object and of
// each class. x is [images, anchors, 5 + classes, height, width].
#include "epilogue/sigmoid.h"

// Boxes [images, priors, 4] and scores [images, priors, classes] of one map, whose first prior is
// `first`; then come its cells, each with its anchors. sizes has the widths of the anchors, then
// their heights, in units of the map's extents. A score is that of the object times that of the
// class, which is a logistic function, or with `softmax` a share of all classes; then only the best
// class of a prior has a score, and the others have -1.
KERNEL(yolo_boxes, ARG(i64, count), ARG(i64, anchors), ARG(i64, classes), ARG(i64, height),
       ARG(i64, width), ARG(i64, priors), ARG(i64, first), ARG(i32, softmax), IN(MItype, x),
       IN(f32, sizes), OUT(f32, boxes), OUT(f32, scores)) {
  FOR_EACH_GROUP(i, count) {
    const Index plane = height * width, map = i / plane, cell = i - map * plane;
    const Index image = map / anchors, n = map - image * anchors;
    const Index row = cell / width, column = cell - row * width;
    const Index at = map * (5 + classes) * plane + cell;
    const Index prior = image * priors + first + cell * anchors + n;
    const float cx = ((float)column + (float)sigmoid_value(LOAD(MItype, x, at))) / (float)width;
    const float cy =
        ((float)row + (float)sigmoid_value(LOAD(MItype, x, at + plane))) / (float)height;
    const float half_w = (float)EXP(LOAD(MItype, x, at + 2 * plane)) * LOAD(f32, sizes, n) / 2;
    const float half_h =
        (float)EXP(LOAD(MItype, x, at + 3 * plane)) * LOAD(f32, sizes, anchors + n) / 2;
    STORE(f32, boxes, prior * 4, cx - half_w);
    STORE(f32, boxes, prior * 4 + 1, cy - half_h);
    STORE(f32, boxes, prior * 4 + 2, cx + half_w);
    STORE(f32, boxes, prior * 4 + 3, cy + half_h);
    const float object = (float)sigmoid_value(LOAD(MItype, x, at + 4 * plane));
    Index best = 0;
    Acctype largest = LOAD(MItype, x, at + 5 * plane), sum = 0;
    for (Index c = 1; c < classes; ++c) {
      const Acctype v = LOAD(MItype, x, at + (5 + c) * plane);
      best = v > largest ? c : best;
      largest = v > largest ? v : largest;
    }
    for (Index c = 0; c < classes; ++c) {
      sum += EXP(LOAD(MItype, x, at + (5 + c) * plane) - largest);
    }
    for (Index c = 0; c < classes; ++c) {
      const Acctype v = LOAD(MItype, x, at + (5 + c) * plane);
      const float share = softmax ? (float)(REAL(1.0) / sum) : (float)sigmoid_value(v);
      STORE(f32, scores, prior * classes + c, softmax && c != best ? -1.0f : object * share);
    }
  }
}
