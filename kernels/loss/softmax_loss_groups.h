//! types: device
// softmax_loss_forward_rows (see softmax_loss.h) for devices: a group of GROUP items computes one
// row. Sums have one fixed order.
#include "math/softmax_loss_term.h"

KERNEL(softmax_loss_forward_groups, ARG(i64, outer), ARG(i64, channels), ARG(i32, ignoring),
       ARG(i32, ignored), ARG(i32, weighted), IN(MItype, x), IN(f32, labels),
       IN(f32, class_weights), OUT(MOtype, p), OUT(Mastertype, terms)) {
  const i32 t = LOCAL_ID(0);
  const i64 r = GROUP_ID(0), at = r * channels;
#include "math/softmax_group.h"
  for (i64 c = t; c < channels; c += GROUP) {
    STORE(MOtype, p, at + c, EXP(LOAD(MItype, x, at + c) - top) / sum);
  }
  if (t > 0) return;
  const float given = LOAD(f32, labels, r);
  const i32 label = class_of(given, channels, ignoring, ignored);
  const i64 safe = label < 0 ? 0 : label;
  const Acctype factor = weighted ? LOAD(f32, class_weights, safe) : 1.0f;
  const Acctype loss = factor * softmax_loss_term(LOAD(MItype, x, at + safe), top, sum);
  STORE(Mastertype, terms, r, label >= 0 ? loss : label == -1 ? 0 : given);
  STORE(Mastertype, terms, outer + r, class_weight(label));
}
