// The parts that all update rules share. A work item takes `unit` elements of one block of
// parameters, whose multipliers of rate and decay it loads once; `unit` divides PARAMETER_BLOCK.
#include "dialect/training.h"

// Nothing is updated after an overflow.
#define FOR_EACH_PART(item) \
  if (LOAD(f32, reals, STEP_SKIP) != 0.0f) return; \
  FOR_EACH_GROUP(item, items)

// Declares begin, rate, factor, decay2 and decay1 for a work item.
#define LOAD_PART(item, all_rates) \
  const Index begin = item * unit, block = begin / PARAMETER_BLOCK; \
  const Acctype factor = LOAD(f32, reals, STEP_FACTOR) * normalize; \
  const Acctype rate = (all_rates) * LOAD(f32, multipliers, 2 * block); \
  const Acctype decay_mult = LOAD(f32, multipliers, 2 * block + 1); \
  const Acctype decay2 = l2 * decay_mult, decay1 = l1 * decay_mult

// Declares the parameter x and its whole gradient d, with weight decay.
#define LOAD_PARAMETER(i) \
  const Acctype x = LOAD(Dtype, w, i); \
  const Acctype sign = (Acctype)((x > 0) - (x < 0)); \
  const Acctype d = LOAD(Dtype, g, i) * factor + decay2 * x + decay1 * sign

// Subtracts the update, which g becomes.
#define STORE_UPDATE(i, update) \
  STORE(Dtype, g, i, update); \
  STORE(Dtype, w, i, x - update)
