//! types: device
// euclidean_forward (see euclidean.h) for devices: a group of GROUP items computes a term. Its sums
// have one fixed order.
KERNEL(euclidean_forward_groups, ARG(i64, terms), ARG(i64, part), ARG(i64, n), IN(MItype, a),
       IN(MItype, b), OUT(Mastertype, sums)) {
  LOCAL Acctype parts[GROUP];
  const i32 item = LOCAL_ID(0);
  const i64 begin = GROUP_ID(0) * part, count = begin + part < n ? part : n - begin;
  Acctype sum = 0;
  LANES2(item, GROUP, begin, count, MItype, a, v, MItype, b, w, sum += (v - w) * (v - w))
  parts[item] = sum;
  BARRIER;
  for (i32 width = GROUP / 2; width > 0; width /= 2) {
    if (item < width) parts[item] += parts[item + width];
    BARRIER;
  }
  if (item > 0) return;
  STORE(Mastertype, sums, GROUP_ID(0), parts[0]);
  STORE(Mastertype, sums, terms + GROUP_ID(0), 1);
}
