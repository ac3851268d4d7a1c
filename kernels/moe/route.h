//! types: float
// The routing of a mixture of experts: p [items, experts] are the probabilities of the gate. A pair
// is an item and one of its `select` experts; pair n * select + k belongs to item n. Indices and
// counts are stored as whole numbers in f32.
#include "math/select_experts.h"

KERNEL(moe_select, ARG(i64, items), ARG(i32, experts), ARG(i32, select), ARG(i32, normalize),
       IN(MItype, p), IN(Mastertype, bias), OUT(MOtype, weights), OUT(f32, chosen)) {
  FOR_EACH_GROUP(n, items) {
    SELECT_EXPERTS(n)
  }
}

// counts [blocks, experts]: how many of the `length` pairs of a block belong to an expert.
KERNEL(moe_count, ARG(i64, blocks), ARG(i64, length), ARG(i64, pairs), ARG(i32, experts),
       IN(f32, chosen), OUT(f32, counts)) {
  FOR_EACH_GROUP(g, blocks * experts) {
    const Index block = g / experts, e = g - block * experts, begin = block * length;
    const Index end = begin + length < pairs ? begin + length : pairs;
    i32 count = 0;
    for (Index i = begin; i < end; ++i) count += (Index)LOAD(f32, chosen, i) == e;
    STORE(f32, counts, g, (float)count);
  }
}

// Replaces the counts of each expert by the number of its pairs in earlier blocks. totals [experts]
// are the numbers in all blocks; `used` adds up totals / items, and the number of calls behind
// them. An expert with fewer pairs than the mean gets `rate` more bias, one with more pairs loses
// it.
KERNEL(moe_totals, ARG(i32, experts), ARG(i64, blocks), ARG(i64, items), ARG(Acctype, mean),
       ARG(Acctype, rate), OUT(f32, counts), OUT(f32, totals), OUT(f32, used),
       OUT(Mastertype, bias)) {
  FOR_EACH_GROUP(e, experts) {
    i32 sum = 0;
    for (Index block = 0; block < blocks; ++block) {
      const i32 count = (i32)LOAD(f32, counts, block * experts + e);
      STORE(f32, counts, block * experts + e, (float)sum);
      sum += count;
    }
    STORE(f32, totals, e, (float)sum);
    STORE(f32, used, e, LOAD(f32, used, e) + (float)sum / (float)items);
    if (e == 0) STORE(f32, used, experts, LOAD(f32, used, experts) + 1.0f);
    const Acctype total = (Acctype)sum;
    const Acctype step = total < mean ? rate : total > mean ? -rate : 0;
    if (rate != 0) STORE(Mastertype, bias, e, LOAD(Mastertype, bias, e) + step);
  }
}

// offsets [experts + 1]: the first row of each expert, and the number of rows that are in use. An
// expert has at most `capacity` rows.
KERNEL(moe_offsets, ARG(i32, experts), ARG(i64, capacity), IN(f32, totals), OUT(f32, offsets)) {
  FOR_EACH_GROUP(e, experts + 1) {
    Index sum = 0;
    for (Index i = 0; i < e; ++i) {
      const Index total = (Index)LOAD(f32, totals, i);
      sum += total < capacity ? total : (Index)capacity;
    }
    STORE(f32, offsets, e, (float)sum);
  }
}

// slots [pairs]: the row of each pair. Rows are ordered by expert, then by item. A pair beyond the
// capacity of its expert has slot -1 and weight 0. rows [pairs]: the pair of each row, -1 if the
// row is not in use; every element is written once.
KERNEL(moe_place, ARG(i64, pairs), ARG(i32, experts), ARG(i64, length), ARG(i64, capacity),
       IN(f32, chosen), IN(f32, counts), IN(f32, offsets), OUT(f32, slots), OUT(f32, rows),
       OUT(MOtype, weights)) {
  FOR_EACH_GROUP(i, pairs) {
    const Index e = (Index)LOAD(f32, chosen, i), block = i / length;
    Index rank = (Index)LOAD(f32, counts, block * experts + e);
    for (Index other = block * length; other < i; ++other) {
      rank += (Index)LOAD(f32, chosen, other) == e;
    }
    const Index slot = rank < capacity ? (Index)LOAD(f32, offsets, e) + rank : -1;
    STORE(f32, slots, i, (float)slot);
    if (slot < 0) {
      STORE(MOtype, weights, i, 0);
    } else {
      STORE(f32, rows, slot, (float)i);
    }
    if (i >= (Index)LOAD(f32, offsets, experts)) STORE(f32, rows, i, -1.0f);
  }
}

// The same if every expert computes all items: row e * items + n belongs to expert e and item n.
KERNEL(moe_place_all, ARG(i64, items), ARG(i32, experts), ARG(i32, select), ARG(i64, length),
       ARG(i64, capacity), IN(f32, chosen), IN(f32, counts), OUT(f32, offsets), OUT(f32, slots),
       OUT(f32, rows), OUT(MOtype, weights)) {
  FOR_EACH_GROUP(n, items) {
    for (i32 e = 0; n == 0 && e <= experts; ++e) STORE(f32, offsets, e, (float)(e * items));
    for (i32 e = 0; e < experts; ++e) STORE(f32, rows, e * items + n, -1.0f);
    for (i32 k = 0; k < select; ++k) {
      const Index i = n * select + k, e = (Index)LOAD(f32, chosen, i), block = i / length;
      Index rank = (Index)LOAD(f32, counts, block * experts + e);
      for (Index other = block * length; other < i; ++other) {
        rank += (Index)LOAD(f32, chosen, other) == e;
      }
      const Index row = e * items + n, kept = rank < capacity;
      STORE(f32, slots, i, kept ? (float)row : -1.0f);
      if (kept) {
        STORE(f32, rows, row, (float)i);
      } else {
        STORE(MOtype, weights, i, 0);
      }
    }
  }
}

// observed [items, experts]: the share of items that selected each expert, in every row; expected:
// the same for even use.
KERNEL(moe_usage, ARG(i64, n), ARG(i64, items), ARG(i32, experts), ARG(Acctype, share),
       IN(f32, totals), OUT(MOtype, observed), OUT(MOtype, expected)) {
  FOR_EACH(i, n) {
    const Index e = i % experts;
    STORE(MOtype, observed, i, (Acctype)LOAD(f32, totals, e) / (Acctype)items);
    STORE(MOtype, expected, i, share);
  }
}

// sums [experts]: the columns of observed_diff [items, experts].
KERNEL(moe_usage_sums, ARG(i64, items), ARG(i32, experts), IN(MOtype, observed_diff),
       OUT(Mastertype, sums)) {
  FOR_EACH_GROUP(e, experts) {
    Acctype sum = 0;
    for (Index n = 0; n < items; ++n) sum += LOAD(MOtype, observed_diff, n * experts + e);
    STORE(Mastertype, sums, e, sum);
  }
}

// p_diff through the weights, and through observed = select * the mean of p, which also reaches the
// experts that an item did not select.
KERNEL(moe_route_backward, ARG(i64, items), ARG(i32, experts), ARG(i32, select),
       ARG(i32, normalize), ARG(Acctype, usage_factor), IN(MItype, p), IN(f32, chosen), IN(f32, slots),
       IN(MOtype, weights), IN(MOtype, weights_diff), IN(Mastertype, usage_sums),
       OUT(MItype, p_diff)) {
  FOR_EACH_GROUP(i, items * experts) {
    const Index n = i / experts, e = i - n * experts;
    Acctype sum = 0, dot = 0, own = 0;
    i32 selected = 0;
    for (i32 k = 0; k < select; ++k) {
      const Index pair = n * select + k, expert = (Index)LOAD(f32, chosen, pair);
      sum += LOAD(MItype, p, n * experts + expert);
      const i32 kept = LOAD(f32, slots, pair) >= 0;
      const Acctype d = kept ? LOAD(MOtype, weights_diff, pair) : 0;
      dot += d * LOAD(MOtype, weights, pair);
      if (expert == e) {
        selected = 1;
        own = d;
      }
    }
    const Acctype through_share = selected && sum != 0 ? (own - dot) / sum : 0;
    const Acctype through_weight = normalize ? through_share : own;
    STORE(MItype, p_diff, i, usage_factor * LOAD(Mastertype, usage_sums, e) + through_weight);
  }
}
