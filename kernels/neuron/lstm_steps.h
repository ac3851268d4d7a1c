//! types: device
//! tests: library
// All steps of LSTM in one launch. Step t is that of lstm_unit.h, where
//   hidden_gates [t, N, 4H] = h [t - 1] weights'
// is not rounded. h [-1] and c [-1] are h_first and c_first.
//
// Group (p, b) computes the units from p UNITS on, and every parts-th UNITS of them, of the
// sequences from b ROWS on, and every row_groups-th ROWS of them; an item has OWN_UNITS neighbours,
// and there are enough items for UNITS ROWS. With UNITS_MULTIPLY a group has one part of the units,
// and reads in each step what the others wrote; otherwise `parts` is 1.
//
// With `keeps`, hidden_gates and c of all steps are written, for the gradients. Without it, c holds
// one step, and may be c_last. Launches that write `turn` do not run at the same time.
// Defines: HIDDEN (H), UNITS, and those of step_sums.h.
#include "math/gates.h"
#define COLUMNS (4 * UNITS)
#define DEPTH HIDDEN
// Columns are the units of one gate after the other.
#define WEIGHT_AT(column, k) \
  ((i64)((column) / UNITS * HIDDEN + unit0 + (column) % UNITS) * HIDDEN + (k))
#define COLUMN_IS_INSIDE(column) (unit0 + (column) % UNITS < HIDDEN)
#include "dialect/step_sums.h"

// Reads what step t needs of the units of an item.
#define READ_STEP(t)                                                                     \
  {                                                                                      \
    const i64 gate_ = ((i64)(t) * items + n) * 4 * HIDDEN + j;                           \
    k_read = LOAD(f32, cont, (i64)(t) * items + n);                                      \
    UNROLL for (i32 g_ = 0; g_ < 4; ++g_) {                                              \
      gates_read[g_] = READ_UNITS(MItype, gates, gate_ + g_ * HIDDEN);                   \
    }                                                                                    \
  }

KERNEL(lstm_steps_forward, ARG(i32, steps), ARG(i32, items), ARG(i32, parts), ARG(i32, row_groups),
       ARG(i32, keeps), IN(MItype, gates), IN(f32, cont), IN(MItype, h_first), IN(MItype, c_first),
       IN(MItype, weights), OUT(MItype, hidden_gates), OUT(MOtype, c), OUT(MOtype, h),
       OUT(MOtype, h_last), OUT(MOtype, c_last), OUT(i32, turn)) {
  SUM_MEMORY;
  const i32 own_row = LOCAL_ID(0) / (UNITS / OWN_UNITS);
  const i32 own_unit = LOCAL_ID(0) % (UNITS / OWN_UNITS) * OWN_UNITS;
  // Whether an item has the same units in all steps: it then keeps c, and reads a step ahead.
  const i32 stays = row_groups * ROWS >= items && parts * UNITS >= HIDDEN;
  float k_read = 0;
  UnitsWord gates_read[4] = {0, 0, 0, 0};
  Acctype c_before[OWN_UNITS];
  i32 unit0 = (i32)GROUP_ID(0) * UNITS;
  READ_WEIGHTS
  for (i32 t = 0; t < steps; ++t) {
    const i64 step = (i64)t * items * HIDDEN, before = step - (i64)items * HIDDEN;
    GLOBAL const STORAGE(MItype)* const h_before =
        t > 0 ? h + AT(h, before) : h_first + AT(h_first, 0);
    for (i32 row0 = (i32)GROUP_ID(1) * ROWS; row0 < items; row0 += row_groups * ROWS) {
      for (unit0 = (i32)GROUP_ID(0) * UNITS; unit0 < HIDDEN; unit0 += parts * UNITS) {
        const i32 n = row0 + own_row, j = unit0 + own_unit;
        const i32 inside = own_row < ROWS && n < items && j < HIDDEN;
        const i64 own = (i64)n * HIDDEN + j;
        if (inside && (t == 0 || !stays)) {
          READ_STEP(t)
          if (t == 0) {
            UNITS_OF(c_before, READ_UNITS(MItype, c_first, own));
          } else {
            UNITS_OF(c_before, READ_UNITS(MOtype, c, (keeps ? before : 0) + own));
          }
        }
        const Acctype k = k_read;
        Acctype a[4][OWN_UNITS], out[OWN_UNITS];
        UNROLL for (i32 g = 0; g < 4; ++g) {
          UNITS_OF(a[g], gates_read[g]);
        }
        STEP_SUMS(h_before, row0, items, t > 0)
        if (inside && stays && t + 1 < steps) READ_STEP(t + 1)
        if (inside) {
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            Acctype sum[4];
            UNROLL for (i32 g = 0; g < 4; ++g) {
              TOTAL(sum[g], h_before, row0, own_row, g * UNITS + own_unit + u)
              if (k != REAL(0.0)) a[g][u] += k * sum[g];
            }
            Acctype next = gate_sigmoid(a[0][u]) * gate_tanh(a[3][u]);
            if (k != REAL(0.0)) next += k * gate_sigmoid(a[1][u]) * c_before[u];
            out[u] = gate_sigmoid(a[2][u]) * gate_tanh(next);
            c_before[u] = next;
            if (keeps) {
              const i64 gate = 4 * step + (i64)n * 4 * HIDDEN + j + u;
              UNROLL for (i32 g = 0; g < 4; ++g) {
                STORE(MItype, hidden_gates, gate + g * HIDDEN, sum[g]);
              }
            }
          }
          WRITE_UNITS(MOtype, h, step + own, out);
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            if (keeps || !stays) STORE(MOtype, c, (keeps ? step : 0) + own + u, c_before[u]);
            if (t == steps - 1) {
              STORE(MOtype, c_last, own + u, c_before[u]);
              STORE(MOtype, h_last, own + u, out[u]);
            }
          }
        }
        END_SUMS;
      }
    }
  }
}
