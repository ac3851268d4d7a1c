//! types: device
// y = exp(x - max) / sum over the columns of each row (see softmax.h), for devices: a group of 256
// items computes one row. Sums have one fixed order.
KERNEL(softmax_forward_groups, ARG(i64, channels), IN(MItype, x), OUT(MOtype, y)) {
  LOCAL Acctype parts[256];
  const i32 t = LOCAL_ID(0);
  const i64 at = GROUP_ID(0) * channels;
  Acctype top = LOWEST;
  for (i64 c = t; c < channels; c += 256) {
    const Acctype v = LOAD(MItype, x, at + c);
    top = v > top ? v : top;
  }
  parts[t] = top;
  BARRIER;
  for (i32 half_way = 128; half_way > 0; half_way /= 2) {
    if (t < half_way && parts[t + half_way] > parts[t]) parts[t] = parts[t + half_way];
    BARRIER;
  }
  top = parts[0];
  BARRIER;
  Acctype sum = 0;
  for (i64 c = t; c < channels; c += 256) sum += EXP(LOAD(MItype, x, at + c) - top);
  parts[t] = sum;
  BARRIER;
  for (i32 half_way = 128; half_way > 0; half_way /= 2) {
    if (t < half_way) parts[t] += parts[t + half_way];
    BARRIER;
  }
  sum = parts[0];
  for (i64 c = t; c < channels; c += 256) {
    STORE(MOtype, y, at + c, EXP(LOAD(MItype, x, at + c) - top) / sum);
  }
}
