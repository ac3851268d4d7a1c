//! types: device
// y = exp(x - max) / sum over the columns of each row (see softmax.h), for devices: a group of
// GROUP items computes one row. Sums have one fixed order.
KERNEL(softmax_forward_groups, ARG(i64, channels), IN(MItype, x), OUT(MOtype, y)) {
  const i32 t = LOCAL_ID(0);
  const i64 at = GROUP_ID(0) * channels;
#include "math/softmax_group.h"
  for (i64 c = t; c < channels; c += GROUP) {
    STORE(MOtype, y, at + c, EXP(LOAD(MItype, x, at + c) - top) / sum);
  }
}
