//! types: float
// One step of GRU. Row r of the gates has 3 parts of `columns` elements: r, z and n before their
// functions; r multiplies the part n of cont hidden_gates. Where cont is 0, nothing of the step
// before is used.
#include "epilogue/sigmoid.h"

KERNEL(gru_unit_forward, ARG(i64, rows), ARG(i64, columns), IN(MItype, h_before),
       IN(MItype, gates), IN(f32, cont), IN(MItype, hidden_gates), OUT(MOtype, h)) {
  FOR_EACH_ROW(row, rows, j, columns) {
    const Index at = row * columns + j, gate = 3 * row * columns + j;
    const Acctype k = LOAD(f32, cont, row);
    Acctype r = LOAD(MItype, gates, gate), z = LOAD(MItype, gates, gate + columns);
    Acctype own = REAL(0.0), before = REAL(0.0);
    if (k != REAL(0.0)) {
      r += k * LOAD(MItype, hidden_gates, gate);
      z += k * LOAD(MItype, hidden_gates, gate + columns);
      own = k * LOAD(MItype, hidden_gates, gate + 2 * columns);
      before = k * LOAD(MItype, h_before, at);
    }
    z = sigmoid_value(z);
    const Acctype n = TANH(LOAD(MItype, gates, gate + 2 * columns) + sigmoid_value(r) * own);
    STORE(MOtype, h, at, (REAL(1.0) - z) * n + z * before);
  }
}

// With h_wanted, gates_wanted and hidden_wanted, the diffs of h_before, of gates and of
// hidden_gates are written.
KERNEL(gru_unit_backward, ARG(i64, rows), ARG(i64, columns), ARG(i32, h_wanted),
       ARG(i32, gates_wanted), ARG(i32, hidden_wanted), IN(MItype, h_before), IN(MItype, gates),
       IN(f32, cont), IN(MItype, hidden_gates), IN(MOtype, h_diff), OUT(MItype, h_before_diff),
       OUT(MItype, gates_diff), OUT(MItype, hidden_gates_diff)) {
  FOR_EACH_ROW(row, rows, j, columns) {
    const Index at = row * columns + j, gate = 3 * row * columns + j;
    const Acctype k = LOAD(f32, cont, row);
    Acctype r = LOAD(MItype, gates, gate), z = LOAD(MItype, gates, gate + columns);
    Acctype own = REAL(0.0), before = REAL(0.0);
    if (k != REAL(0.0)) {
      r += k * LOAD(MItype, hidden_gates, gate);
      z += k * LOAD(MItype, hidden_gates, gate + columns);
      own = k * LOAD(MItype, hidden_gates, gate + 2 * columns);
      before = k * LOAD(MItype, h_before, at);
    }
    r = sigmoid_value(r);
    z = sigmoid_value(z);
    const Acctype n = TANH(LOAD(MItype, gates, gate + 2 * columns) + r * own);
    const Acctype dh = LOAD(MOtype, h_diff, at);
    const Acctype dn = dh * (REAL(1.0) - z) * (REAL(1.0) - n * n);
    const Acctype dz = dh * (before - n) * z * (REAL(1.0) - z);
    const Acctype dr = dn * own * r * (REAL(1.0) - r);
    if (h_wanted) STORE(MItype, h_before_diff, at, k * dh * z);
    if (gates_wanted) {
      STORE(MItype, gates_diff, gate, dr);
      STORE(MItype, gates_diff, gate + columns, dz);
      STORE(MItype, gates_diff, gate + 2 * columns, dn);
    }
    if (hidden_wanted) {
      STORE(MItype, hidden_gates_diff, gate, k * dr);
      STORE(MItype, hidden_gates_diff, gate + columns, k * dz);
      STORE(MItype, hidden_gates_diff, gate + 2 * columns, k * dn * r);
    }
  }
}
