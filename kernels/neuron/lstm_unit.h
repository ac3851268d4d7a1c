//! types: float
// One step of LSTM. Row r of the gates has 4 parts of `columns` elements: i, f, o and g before
// their functions. With `recurrent`, the gates are gates + cont hidden_gates. Where cont is 0,
// nothing of the step before is used.
#include "epilogue/sigmoid.h"

KERNEL(lstm_unit_forward, ARG(i64, rows), ARG(i64, columns), ARG(i32, recurrent),
       IN(MItype, c_before), IN(MItype, gates), IN(f32, cont), IN(MItype, hidden_gates),
       OUT(MOtype, c), OUT(MOtype, h)) {
  FOR_EACH_ROW(r, rows, j, columns) {
    const Index at = r * columns + j, gate = 4 * r * columns + j;
    const Acctype k = LOAD(f32, cont, r);
    Acctype i = LOAD(MItype, gates, gate), f = LOAD(MItype, gates, gate + columns);
    Acctype o = LOAD(MItype, gates, gate + 2 * columns), g = LOAD(MItype, gates, gate + 3 * columns);
    if (recurrent && k != REAL(0.0)) {
      i += k * LOAD(MItype, hidden_gates, gate);
      f += k * LOAD(MItype, hidden_gates, gate + columns);
      o += k * LOAD(MItype, hidden_gates, gate + 2 * columns);
      g += k * LOAD(MItype, hidden_gates, gate + 3 * columns);
    }
    Acctype next = sigmoid_value(i) * TANH(g);
    if (k != REAL(0.0)) next += k * sigmoid_value(f) * LOAD(MItype, c_before, at);
    STORE(MOtype, c, at, next);
    STORE(MOtype, h, at, sigmoid_value(o) * TANH(next));
  }
}

// With c_wanted, gates_wanted and hidden_wanted, the diffs of c_before, of gates and of
// hidden_gates are written.
KERNEL(lstm_unit_backward, ARG(i64, rows), ARG(i64, columns), ARG(i32, recurrent),
       ARG(i32, c_wanted), ARG(i32, gates_wanted), ARG(i32, hidden_wanted), IN(MItype, c_before),
       IN(MItype, gates), IN(f32, cont), IN(MItype, hidden_gates), IN(MOtype, c),
       IN(MOtype, c_diff), IN(MOtype, h_diff), OUT(MItype, c_before_diff), OUT(MItype, gates_diff),
       OUT(MItype, hidden_gates_diff)) {
  FOR_EACH_ROW(r, rows, j, columns) {
    const Index at = r * columns + j, gate = 4 * r * columns + j;
    const Acctype k = LOAD(f32, cont, r);
    Acctype i = LOAD(MItype, gates, gate), f = LOAD(MItype, gates, gate + columns);
    Acctype o = LOAD(MItype, gates, gate + 2 * columns), g = LOAD(MItype, gates, gate + 3 * columns);
    if (recurrent && k != REAL(0.0)) {
      i += k * LOAD(MItype, hidden_gates, gate);
      f += k * LOAD(MItype, hidden_gates, gate + columns);
      o += k * LOAD(MItype, hidden_gates, gate + 2 * columns);
      g += k * LOAD(MItype, hidden_gates, gate + 3 * columns);
    }
    i = sigmoid_value(i);
    f = sigmoid_value(f);
    o = sigmoid_value(o);
    g = TANH(g);
    const Acctype t = TANH(LOAD(MOtype, c, at)), dh = LOAD(MOtype, h_diff, at);
    const Acctype dc = LOAD(MOtype, c_diff, at) + dh * o * (REAL(1.0) - t * t);
    Acctype df = REAL(0.0), before_diff = REAL(0.0);
    if (k != REAL(0.0)) {
      df = dc * k * LOAD(MItype, c_before, at) * f * (REAL(1.0) - f);
      before_diff = dc * k * f;
    }
    const Acctype di = dc * g * i * (REAL(1.0) - i), d_o = dh * t * o * (REAL(1.0) - o);
    const Acctype dg = dc * i * (REAL(1.0) - g * g);
    if (c_wanted) STORE(MItype, c_before_diff, at, before_diff);
    if (gates_wanted) {
      STORE(MItype, gates_diff, gate, di);
      STORE(MItype, gates_diff, gate + columns, df);
      STORE(MItype, gates_diff, gate + 2 * columns, d_o);
      STORE(MItype, gates_diff, gate + 3 * columns, dg);
    }
    if (hidden_wanted) {
      STORE(MItype, hidden_gates_diff, gate, k * di);
      STORE(MItype, hidden_gates_diff, gate + columns, k * df);
      STORE(MItype, hidden_gates_diff, gate + 2 * columns, k * d_o);
      STORE(MItype, hidden_gates_diff, gate + 3 * columns, k * dg);
    }
  }
}
