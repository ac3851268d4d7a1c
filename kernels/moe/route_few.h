//! types: device
// Computes what the kernels of moe/route.h compute in phase TEST, by one work group, for at most
// PAIRS pairs and EXPERTS experts: there is no capacity, no bias changes, and all rows are in use.
#include "math/select_experts.h"
#define PAIRS 512
#define EXPERTS 256
#define FOR_OWN(i, n) for (i32 i = LOCAL_ID(0); i < (n); i += GROUP)

KERNEL(moe_route_few, ARG(i32, items), ARG(i32, experts), ARG(i32, select), ARG(i32, normalize),
       ARG(Acctype, even), IN(MItype, p), IN(Mastertype, bias), OUT(MOtype, observed), OUT(MOtype, expected),
       OUT(MOtype, weights), OUT(f32, slots), OUT(f32, rows), OUT(f32, offsets), OUT(f32, chosen),
       OUT(f32, totals), OUT(f32, used)) {
  LOCAL i32 expert_of[PAIRS];
  LOCAL i32 total[EXPERTS];
  LOCAL i32 first[EXPERTS];
  const i32 pairs = items * select;
  FOR_OWN(n, items) {
    SELECT_EXPERTS(n)
    for (i32 k = 0; k < select; ++k) {
      expert_of[n * select + k] = (i32)LOAD(f32, chosen, n * select + k);
    }
  }
  BARRIER;
  FOR_OWN(e, experts) {
    i32 count = 0;
    for (i32 i = 0; i < pairs; ++i) count += expert_of[i] == e;
    total[e] = count;
    STORE(f32, totals, e, (float)count);
    STORE(f32, used, e, LOAD(f32, used, e) + (float)count / (float)items);
    if (e == 0) STORE(f32, used, experts, LOAD(f32, used, experts) + 1.0f);
  }
  BARRIER;
  FOR_OWN(e, experts) {
    i32 sum = 0;
    for (i32 i = 0; i < e; ++i) sum += total[i];
    first[e] = sum;
    STORE(f32, offsets, e, (float)sum);
    if (e == 0) STORE(f32, offsets, experts, (float)pairs);
  }
  BARRIER;
  FOR_OWN(i, pairs) {
    i32 slot = first[expert_of[i]];
    for (i32 other = 0; other < i; ++other) slot += expert_of[other] == expert_of[i];
    STORE(f32, slots, i, (float)slot);
    STORE(f32, rows, slot, (float)i);
  }
  FOR_OWN(i, items * experts) {
    STORE(MOtype, observed, i, (Acctype)total[i % experts] / (Acctype)items);
    STORE(MOtype, expected, i, even);
  }
}
#undef PAIRS
#undef EXPERTS
#undef FOR_OWN
