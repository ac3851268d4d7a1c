//! types: float
// Sums of (a - b)^2 for each pair, which is a channel of math/channel_parts.h.
#include "math/channel_parts.h"

KERNEL(contrastive_distances, ARG(i64, channels), ARG(i64, outer), ARG(i64, inner),
       ARG(i64, slices), ARG(i64, lanes), IN(MItype, a), IN(MItype, b), OUT(Mastertype, parts)) {
  CHANNEL_PARTS(,
                FOR_LANES(i, lane, lanes, inner) {
                  const Acctype d = LOAD(MItype, a, row + i) - LOAD(MItype, b, row + i);
                  part += d * d;
                },
                sum)
}

// `squares` are the squared distances. y is 0 for dissimilar pairs, finite and not 0 for similar
// ones, and invalid if it is not finite.
KERNEL(contrastive_terms, ARG(i64, pairs), ARG(i32, legacy), ARG(Acctype, margin),
       IN(Mastertype, squares), IN(f32, y), OUT(Mastertype, terms)) {
  FOR_EACH(i, pairs) {
    const float similar = LOAD(f32, y, i);
    const Acctype square = LOAD(Mastertype, squares, i);
    const Acctype gap = margin - (legacy ? square : SQRT(square));
    const Acctype open = gap < 0 ? 0 : gap;
    const Acctype loss = label_of(similar) != 0 ? square : legacy ? open : open * open;
    const i32 valid = similar - similar == 0.0f;
    STORE(Mastertype, terms, i, valid ? loss : similar);
    STORE(Mastertype, terms, pairs + i, class_weight(valid ? 0 : -2));
  }
}

KERNEL(contrastive_backward, ARG(i64, pairs), ARG(i64, length), ARG(i32, legacy),
       ARG(Acctype, margin), ARG(Acctype, factor), IN(MItype, a), IN(MItype, b),
       IN(Mastertype, squares), IN(f32, y), IN(Mastertype, loss_diff), OUT(MItype, diff)) {
  FOR_EACH_ROW(r, pairs, c, length) {
    const float similar = LOAD(f32, y, r);
    const Acctype square = LOAD(Mastertype, squares, r), distance = SQRT(square);
    const Acctype gap = margin - (legacy ? square : distance);
    const Acctype apart = legacy ? -1 : -gap / (distance + REAL(1e-4));
    const Acctype slope = label_of(similar) != 0 ? 1 : gap <= 0 ? 0 : apart;
    const Acctype d = LOAD(MItype, a, r * length + c) - LOAD(MItype, b, r * length + c);
    const Acctype value = slope * d * factor * LOAD(Mastertype, loss_diff, 0);
    STORE(MItype, diff, r * length + c, similar - similar == 0.0f ? value : 0);
  }
}
