//! types: float
// x and p are [outer, channels, inner], labels [outer, inner]; p = softmax(x). Terms are [2, outer
// inner]: -log p[label], at most -log(FLT_MIN), times the label's class weight if `weighted`, and
// the item's class_weight. The loss is computed from x, because p may have a narrow type.
#include "math/softmax_loss_term.h"

KERNEL(softmax_loss_forward_rows, ARG(i64, outer), ARG(i64, channels), ARG(i32, ignoring),
       ARG(i32, ignored), ARG(i32, weighted), IN(MItype, x), IN(f32, labels),
       IN(f32, class_weights), OUT(MOtype, p), OUT(Mastertype, terms)) {
  FOR_EACH_GROUP(r, outer) {
    const Index at = r * channels;
    Acctype top = LOWEST;
    SIMD_MAX(top)
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, at + c);
      top = v > top ? v : top;
    }
    Acctype sum = 0;
    SIMD_SUM(sum)
    for (Index c = 0; c < channels; ++c) sum += EXP(LOAD(MItype, x, at + c) - top);
    SIMD
    for (Index c = 0; c < channels; ++c) {
      STORE(MOtype, p, at + c, EXP(LOAD(MItype, x, at + c) - top) / sum);
    }
    const float given = LOAD(f32, labels, r);
    const i32 label = class_of(given, channels, ignoring, ignored);
    const Index safe = label < 0 ? 0 : label;
    const Acctype factor = weighted ? LOAD(f32, class_weights, safe) : 1.0f;
    const Acctype loss = factor * softmax_loss_term(LOAD(MItype, x, at + safe), top, sum);
    STORE(Mastertype, terms, r, label >= 0 ? loss : label == -1 ? 0 : given);
    STORE(Mastertype, terms, outer + r, class_weight(label));
  }
}

KERNEL(softmax_loss_forward, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner),
       ARG(i32, ignoring), ARG(i32, ignored), ARG(i32, weighted), IN(MItype, x), IN(f32, labels),
       IN(f32, class_weights), OUT(MOtype, p), OUT(Mastertype, terms)) {
  FOR_EACH_ROW(o, outer, s, inner) {
    const Index at = o * channels * inner + s, term = o * inner + s;
    Acctype top = LOWEST, sum = 0;
    for (Index c = 0; c < channels; ++c) {
      const Acctype v = LOAD(MItype, x, at + c * inner);
      top = v > top ? v : top;
    }
    for (Index c = 0; c < channels; ++c) sum += EXP(LOAD(MItype, x, at + c * inner) - top);
    for (Index c = 0; c < channels; ++c) {
      STORE(MOtype, p, at + c * inner, EXP(LOAD(MItype, x, at + c * inner) - top) / sum);
    }
    const float given = LOAD(f32, labels, term);
    const i32 label = class_of(given, channels, ignoring, ignored);
    const Index safe = label < 0 ? 0 : label;
    const Acctype factor = weighted ? LOAD(f32, class_weights, safe) : 1.0f;
    const Acctype loss = factor * softmax_loss_term(LOAD(MItype, x, at + safe * inner), top, sum);
    STORE(Mastertype, terms, term, label >= 0 ? loss : label == -1 ? 0 : given);
    STORE(Mastertype, terms, outer * inner + term, class_weight(label));
  }
}

// Items with an ignored or invalid label have a gradient of 0.
KERNEL(softmax_loss_backward_rows, ARG(i64, outer), ARG(i64, channels), ARG(i32, ignoring),
       ARG(i32, ignored), ARG(i32, weighted), IN(MOtype, p), IN(f32, labels),
       IN(f32, class_weights), IN(Mastertype, loss_diff), IN(Mastertype, divisor),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, outer, c, channels) {
    const i32 label = class_of(LOAD(f32, labels, r), channels, ignoring, ignored);
    const Acctype weight = weighted ? LOAD(f32, class_weights, label < 0 ? 0 : label) : 1.0f;
    const Acctype factor = LOAD(Mastertype, loss_diff, 0) / LOAD(Mastertype, divisor, 0) * weight;
    const Acctype d = LOAD(MOtype, p, r * channels + c) - (Acctype)(label == c);
    STORE(MItype, x_diff, r * channels + c, label < 0 ? 0 : d * factor);
  }
}

KERNEL(softmax_loss_backward, ARG(i64, outer), ARG(i64, channels), ARG(i64, inner),
       ARG(i32, ignoring), ARG(i32, ignored), ARG(i32, weighted), IN(MOtype, p), IN(f32, labels),
       IN(f32, class_weights), IN(Mastertype, loss_diff), IN(Mastertype, divisor),
       OUT(MItype, x_diff)) {
  FOR_EACH_ROW(r, outer * channels, s, inner) {
    const Index o = r / (Index)channels, c = r - o * channels;
    const i32 label = class_of(LOAD(f32, labels, o * inner + s), channels, ignoring, ignored);
    const Acctype weight = weighted ? LOAD(f32, class_weights, label < 0 ? 0 : label) : 1.0f;
    const Acctype factor = LOAD(Mastertype, loss_diff, 0) / LOAD(Mastertype, divisor, 0) * weight;
    const Acctype d = LOAD(MOtype, p, r * inner + s) - (Acctype)(label == c);
    STORE(MItype, x_diff, r * inner + s, label < 0 ? 0 : d * factor);
  }
}
