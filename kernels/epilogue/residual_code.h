// The stages of a product of codes behind its requantization: the sum with a residual, then ReLU,
// as the layers for sums and ReLU compute them (quant/eltwise.h, neuron/relu.h). Codes are without
// their zero points: `own` in the range of the product, `residual` in its own, the result in that
// of the sum, or behind ReLU. low and high are the bounds of the sum's codes; factors have one
// shift.
#include "epilogue/code_sum.h"

DEVICE_FN i64 residual_code(i64 own, i64 residual, i32 factor, i32 residual_factor, i32 shift,
                            i32 low, i32 high, i32 relu, i32 multiplier, i32 rescale_shift) {
  const i64 s = code_of_sum(own * factor + residual * residual_factor, shift, -(1 << 20));
  const i64 v = s < low ? low : s > high ? high : s;
  if (!relu) return v;
  return v < 0 ? 0 : requantize_i64(v, multiplier, rescale_shift);
}
