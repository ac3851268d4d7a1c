//! types: float
// Losses of the gate of a mixture of experts: p [items, experts] are probabilities, observed the
// usage of each expert in every row, z the inputs of the softmax.

// terms [2, items]: values, then weights, which are 1; see loss/term_sum.h. A value is
//   balance experts / select * sum over e of observed[e] p[n, e] + z_weight log(sum of exp(z[n]))^2
KERNEL(moe_loss_forward, ARG(i64, items), ARG(i32, experts), ARG(Acctype, balance),
       ARG(Acctype, z_weight), IN(MItype, p), IN(MItype, observed), IN(MItype, z),
       OUT(Mastertype, terms)) {
  FOR_EACH_GROUP(n, items) {
    const Index row = n * experts;
    Acctype dot = 0;
    for (i32 e = 0; e < experts; ++e) {
      dot += LOAD(MItype, observed, row + e) * LOAD(MItype, p, row + e);
    }
    Acctype value = balance != 0 ? balance * dot : 0;
    if (z_weight != 0) {
      Acctype top = LOWEST, sum = 0;
      for (i32 e = 0; e < experts; ++e) {
        const Acctype v = LOAD(MItype, z, row + e);
        top = v > top ? v : top;
      }
      for (i32 e = 0; e < experts; ++e) sum += EXP(LOAD(MItype, z, row + e) - top);
      const Acctype log_sum = top + LOG(sum);
      value += z_weight * log_sum * log_sum;
    }
    STORE(Mastertype, terms, n, value);
    STORE(Mastertype, terms, items + n, 1);
  }
}

// The usage counts as a constant. `scale` is 1 / items.
KERNEL(moe_loss_p_diff, ARG(i64, n), ARG(Acctype, balance), ARG(Acctype, scale),
       IN(MItype, observed), IN(Mastertype, y_diff), OUT(MItype, p_diff)) {
  FOR_EACH(i, n) {
    const Acctype d = LOAD(Mastertype, y_diff, 0) * scale;
    STORE(MItype, p_diff, i, balance * d * LOAD(MItype, observed, i));
  }
}

KERNEL(moe_loss_z_diff, ARG(i64, items), ARG(i32, experts), ARG(Acctype, z_weight),
       ARG(Acctype, scale), IN(MItype, z), IN(Mastertype, y_diff), OUT(MItype, z_diff)) {
  FOR_EACH_GROUP(n, items) {
    const Index row = n * experts;
    const Acctype d = LOAD(Mastertype, y_diff, 0) * scale;
    Acctype top = LOWEST, sum = 0;
    for (i32 e = 0; e < experts; ++e) {
      const Acctype v = LOAD(MItype, z, row + e);
      top = v > top ? v : top;
    }
    for (i32 e = 0; e < experts; ++e) sum += EXP(LOAD(MItype, z, row + e) - top);
    const Acctype factor = 2 * z_weight * d * (top + LOG(sum)) / sum;
    for (i32 e = 0; e < experts; ++e) {
      STORE(MItype, z_diff, row + e, factor * EXP(LOAD(MItype, z, row + e) - top));
    }
  }
}
