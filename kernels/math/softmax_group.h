  // A part of kernels whose groups of GROUP items have one row of `channels` elements, which begins
  // at element `at` of x: `top` becomes its greatest element, `sum` the sum of exp(x - top). Item t
  // takes each GROUP-th element. The sum has one fixed order.
  LOCAL Acctype parts[GROUP];
  Acctype top = LOWEST;
  for (i64 c = t; c < channels; c += GROUP) {
    const Acctype v = LOAD(MItype, x, at + c);
    top = v > top ? v : top;
  }
  parts[t] = top;
  BARRIER;
  for (i32 half_way = GROUP / 2; half_way > 0; half_way /= 2) {
    if (t < half_way && parts[t + half_way] > parts[t]) parts[t] = parts[t + half_way];
    BARRIER;
  }
  top = parts[0];
  BARRIER;
  Acctype sum = 0;
  for (i64 c = t; c < channels; c += GROUP) sum += EXP(LOAD(MItype, x, at + c) - top);
  parts[t] = sum;
  BARRIER;
  for (i32 half_way = GROUP / 2; half_way > 0; half_way /= 2) {
    if (t < half_way) parts[t] += parts[t + half_way];
    BARRIER;
  }
  sum = parts[0];
