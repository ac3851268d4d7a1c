//! types: device
//! tests: library
// A chain of functions of one element, on devices: y = CHAIN(x). The text of CHAIN(v, k, TABLE) is
// defined by ChainOp: k is the position in the span, TABLE(j, k) the constant j of the element's
// channel, and SUMMAND(s, k) the element of summand s. The table is [constants, channels]. Element
// i belongs to channel (i / columns) % channels. y may be x, but no summand.
#ifndef CHAIN
#define CHAIN(v, k, TABLE) (v)
#define CHAIN_CONSTANTS 0
#define CHAIN_SUMMANDS 0
#endif
#define OF_CHANNEL(j, k) LOAD(Mastertype, table, (j) * (Index)channels + channel)
#define OF_SPAN(j, k) constants[j][k]
#define SUMMAND(s, k) summands[s][k]

SPAN_KERNEL(chain, ARG(i64, n), ARG(i64, columns), ARG(i64, channels), IN(Mastertype, table),
            IN(MItype, x), IN(MItype, summand0), IN(MItype, summand1), IN(MItype, summand2),
            IN(MItype, summand3), OUT(MOtype, y)) {
  FOR_EACH_SPAN(first, n) {
    Acctype v[SPAN];
    LOAD_SPAN(MItype, v, x, first, n);
#if CHAIN_SUMMANDS > 0
    Acctype summands[CHAIN_SUMMANDS][SPAN];
    LOAD_SPAN(MItype, summands[0], summand0, first, n);
#endif
#if CHAIN_SUMMANDS > 1
    LOAD_SPAN(MItype, summands[1], summand1, first, n);
#endif
#if CHAIN_SUMMANDS > 2
    LOAD_SPAN(MItype, summands[2], summand2, first, n);
#endif
#if CHAIN_SUMMANDS > 3
    LOAD_SPAN(MItype, summands[3], summand3, first, n);
#endif
    const Index row = (Index)first / (Index)columns;
    Index column = (Index)first - row * (Index)columns, channel = row % (Index)channels;
    if (columns == 1 && channels % SPAN == 0) {
#if CHAIN_CONSTANTS > 0
      Acctype constants[CHAIN_CONSTANTS][SPAN];
      UNROLL for (i32 j = 0; j < CHAIN_CONSTANTS; ++j) {
        const Index begin = j * (Index)channels;
        LOAD_SPAN(Mastertype, constants[j], table, begin + channel, begin + channels);
      }
#endif
      FOR_SPAN(k) v[k] = CHAIN(v[k], k, OF_SPAN);
    } else if (column + SPAN <= columns) {
      FOR_SPAN(k) v[k] = CHAIN(v[k], k, OF_CHANNEL);
    } else {
      FOR_SPAN(k) {
        v[k] = CHAIN(v[k], k, OF_CHANNEL);
        if (++column == columns) {
          column = 0;
          if (++channel == channels) channel = 0;
        }
      }
    }
    STORE_SPAN(MOtype, y, first, n, v);
  }
}
