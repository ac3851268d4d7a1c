//! types: device
//! tests: library
// The gradients of lstm_steps.h, from the last step to the first, with the same groups. Step t is
// that of lstm_unit_backward, where h_diff [t] has the sum
//   cont [t + 1] gates_diff [t + 1] weights
// in addition, and the diff of c is not rounded between steps. `carried` [N, H] holds that diff.
//
// The first step adds h_last_diff and c_last_diff. Also written are scaled_h [t] = cont [t]
// h [t - 1], whose product with gates_diff is the gradient of the weights, and with first_wanted
// the diffs of h_first and c_first.
#include "math/gates.h"
#define COLUMNS UNITS
#define DEPTH (4 * HIDDEN)
#define WEIGHT_AT(column, k) ((i64)(k) * HIDDEN + unit0 + (column))
#define COLUMN_IS_INSIDE(column) (unit0 + (column) < HIDDEN)
#include "dialect/step_sums.h"

// Reads what step t needs of the units of an item.
#define READ_STEP(t)                                                                     \
  {                                                                                      \
    const i64 at_ = (i64)(t) * items * HIDDEN, before_ = at_ - (i64)items * HIDDEN;      \
    const i64 gate_ = 4 * at_ + (i64)n * 4 * HIDDEN + j;                                 \
    k_read = LOAD(f32, cont, (i64)(t) * items + n);                                      \
    UNROLL for (i32 g_ = 0; g_ < 4; ++g_) {                                              \
      gates_read[g_] = READ_UNITS(MItype, gates, gate_ + g_ * HIDDEN);                   \
      hidden_read[g_] = READ_UNITS(MItype, hidden_gates, gate_ + g_ * HIDDEN);           \
    }                                                                                    \
    if ((t) > 0) {                                                                       \
      c_read = READ_UNITS(MOtype, c, before_ + own);                                     \
      h_read = READ_UNITS(MOtype, h, before_ + own);                                     \
    } else {                                                                             \
      c_read = READ_UNITS(MItype, c_first, own);                                         \
      h_read = READ_UNITS(MItype, h_first, own);                                         \
    }                                                                                    \
    diff_read = READ_UNITS(MOtype, h_diff, at_ + own);                                   \
  }

KERNEL(lstm_steps_backward, ARG(i32, steps), ARG(i32, items), ARG(i32, parts),
       ARG(i32, row_groups), ARG(i32, first_wanted), IN(MItype, gates), IN(f32, cont),
       IN(MItype, h_first), IN(MItype, c_first), IN(MItype, weights), IN(MItype, hidden_gates),
       IN(MOtype, c), IN(MOtype, h), IN(MOtype, h_diff), IN(MOtype, h_last_diff),
       IN(MOtype, c_last_diff), OUT(MItype, gates_diff), OUT(MItype, h_first_diff),
       OUT(MItype, c_first_diff), OUT(MItype, scaled_h), OUT(Mastertype, carried),
       OUT(i32, turn)) {
  SUM_MEMORY;
  const i32 own_row = LOCAL_ID(0) / (UNITS / OWN_UNITS);
  const i32 own_unit = LOCAL_ID(0) % (UNITS / OWN_UNITS) * OWN_UNITS;
  // Whether an item has the same units in all steps: it then keeps the diff of c, and reads a step
  // ahead.
  const i32 stays = row_groups * ROWS >= items && parts * UNITS >= HIDDEN;
  float k_read = 0;
  UnitsWord gates_read[4] = {0, 0, 0, 0}, hidden_read[4] = {0, 0, 0, 0};
  UnitsWord c_read = 0, h_read = 0, diff_read = 0, c_word = 0;
  Acctype k = 0, dc[OWN_UNITS];
  i32 unit0 = (i32)GROUP_ID(0) * UNITS;
  READ_WEIGHTS
  // Step -1 is the product for h_first alone.
  for (i32 t = steps - 1; t >= (first_wanted ? -1 : 0); --t) {
    const i64 step = (i64)t * items * HIDDEN;
    const i32 last = t == steps - 1;
    GLOBAL const STORAGE(MItype)* const diff_after =
        gates_diff + AT(gates_diff, last ? 0 : 4 * (step + (i64)items * HIDDEN));
    for (i32 row0 = (i32)GROUP_ID(1) * ROWS; row0 < items; row0 += row_groups * ROWS) {
      for (unit0 = (i32)GROUP_ID(0) * UNITS; unit0 < HIDDEN; unit0 += parts * UNITS) {
        const i32 n = row0 + own_row, j = unit0 + own_unit;
        const i32 inside = own_row < ROWS && n < items && j < HIDDEN;
        const i64 own = (i64)n * HIDDEN + j, gate = 4 * step + (i64)n * 4 * HIDDEN + j;
        Acctype k_after = last ? 0 : k;
        if (inside && (last || !stays)) {
          if (!last) k_after = LOAD(f32, cont, (i64)(t + 1) * items + n);
          if (t >= 0) {
            READ_STEP(t)
            c_word = READ_UNITS(MOtype, c, step + own);
          }
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            dc[u] = last ? LOAD(MOtype, c_last_diff, own + u) : LOAD(Mastertype, carried, own + u);
          }
        }
        Acctype a[4][OWN_UNITS], dh[OWN_UNITS], c_now[OWN_UNITS], c_before[OWN_UNITS];
        UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) dh[u] = 0;
        if (inside && t >= 0) {
          Acctype h_before[OWN_UNITS];
          k = k_read;
          UNITS_OF(c_now, c_word);
          UNITS_OF(c_before, c_read);
          UNITS_OF(h_before, h_read);
          UNITS_OF(dh, diff_read);
          c_word = c_read;
          UNROLL for (i32 g = 0; g < 4; ++g) {
            Acctype hidden[OWN_UNITS];
            UNITS_OF(a[g], gates_read[g]);
            UNITS_OF(hidden, hidden_read[g]);
            UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
              if (k != REAL(0.0)) a[g][u] += k * hidden[u];
              a[g][u] = g < 3 ? gate_sigmoid(a[g][u]) : gate_tanh(a[g][u]);
            }
          }
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            c_now[u] = gate_tanh(c_now[u]);
            if (last) dh[u] += LOAD(MOtype, h_last_diff, own + u);
            const Acctype scaled = k != REAL(0.0) ? k * h_before[u] : REAL(0.0);
            STORE(MItype, scaled_h, step + own + u, scaled);
          }
        }
        if (!last) {
          STEP_SUMS(diff_after, row0, items, 1)
        }
        if (inside && stays && t > 0) READ_STEP(t - 1)
        if (inside && k_after != REAL(0.0)) {
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            Acctype sum;
            TOTAL(sum, diff_after, row0, own_row, own_unit + u)
            dh[u] += k_after * sum;
          }
        }
        if (inside && t < 0) {
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) STORE(MItype, h_first_diff, own + u, dh[u]);
        } else if (inside) {
          Acctype di[OWN_UNITS], df[OWN_UNITS], d_o[OWN_UNITS], dg[OWN_UNITS];
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            const Acctype i = a[0][u], f = a[1][u], o = a[2][u], g = a[3][u];
            const Acctype all = dc[u] + dh[u] * o * (REAL(1.0) - c_now[u] * c_now[u]);
            df[u] = dc[u] = REAL(0.0);
            if (k != REAL(0.0)) {
              df[u] = all * k * c_before[u] * f * (REAL(1.0) - f);
              dc[u] = all * k * f;
            }
            di[u] = all * g * i * (REAL(1.0) - i);
            d_o[u] = dh[u] * c_now[u] * o * (REAL(1.0) - o);
            dg[u] = all * i * (REAL(1.0) - g * g);
          }
          WRITE_UNITS(MItype, gates_diff, gate, di);
          WRITE_UNITS(MItype, gates_diff, gate + HIDDEN, df);
          WRITE_UNITS(MItype, gates_diff, gate + 2 * HIDDEN, d_o);
          WRITE_UNITS(MItype, gates_diff, gate + 3 * HIDDEN, dg);
          UNROLL for (i32 u = 0; u < OWN_UNITS; ++u) {
            if (!stays) STORE(Mastertype, carried, own + u, dc[u]);
            if (t == 0 && first_wanted) STORE(MItype, c_first_diff, own + u, dc[u]);
          }
        }
        END_SUMS;
      }
    }
  }
}
