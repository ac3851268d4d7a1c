// Selects the experts of item n of a mixture of experts: those with the largest p + bias; the
// earlier one of equal ones; NaN is the smallest. Weights are the probabilities of the selected
// experts, if `normalize` divided by their sum. The names are arguments of the kernels in route.h
// and route_few.h.
#define SELECT_EXPERTS(n)                                                                 \
  {                                                                                       \
    Acctype sum = 0, last = 0;                                                            \
    i32 last_expert = -1;                                                                 \
    for (i32 k = 0; k < select; ++k) {                                                    \
      i32 best = -1;                                                                      \
      Acctype best_key = 0;                                                               \
      for (i32 e = 0; e < experts; ++e) {                                                 \
        const Acctype v = LOAD(MItype, p, n * experts + e) + LOAD(Mastertype, bias, e);   \
        const Acctype key = v == v ? v : LOWEST;                                          \
        const i32 follows = k == 0 || key < last || (key == last && e > last_expert);     \
        if (follows && (best < 0 || key > best_key)) {                                    \
          best = e;                                                                       \
          best_key = key;                                                                 \
        }                                                                                 \
      }                                                                                   \
      STORE(f32, chosen, n * select + k, (float)best);                                    \
      sum += LOAD(MItype, p, n * experts + best);                                         \
      last = best_key;                                                                    \
      last_expert = best;                                                                 \
    }                                                                                     \
    for (i32 k = 0; k < select; ++k) {                                                    \
      const Index e = (Index)LOAD(f32, chosen, n * select + k);                           \
      const Acctype v = LOAD(MItype, p, n * experts + e);                                 \
      const Acctype share = sum != 0 ? v / sum : REAL(1.0) / (Acctype)select;             \
      STORE(MOtype, weights, n * select + k, normalize ? share : v);                      \
    }                                                                                     \
  }
