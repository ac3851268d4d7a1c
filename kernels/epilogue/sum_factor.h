// The sum of a code and a residual's code, as epilogue/residual_code.h defines it, in fewer
// instructions: codes are not below 0 here, zero points and halves are in addends. Include it in
// device text only. Defines: RESIDUAL (1: the sum, 2: and ReLU), MOST_CODE.
typedef struct {
  i64 addend, rounding, result_addend;
  i32 own, residual, shift, most, multiplier, result_shift;
  i32 plain;  // 0: not for these factors
} SumFactor;

DEVICE_FN SumFactor sum_factor_of(i32 own_zero, i32 own, i32 residual_zero, i32 residual, i32 shift,
                                  i32 most, Requant rescale, i32 zero) {
  SumFactor f;
  f.plain = shift >= 20 && shift <= 45 &&
            (RESIDUAL == 1 || (rescale.shift >= 20 && rescale.shift <= 45));
  f.own = own;
  f.residual = residual;
  f.shift = f.plain ? shift : 20;
  f.most = most;
  f.multiplier = rescale.multiplier;
  f.result_shift = f.plain && RESIDUAL == 2 ? rescale.shift : 20;
  f.addend = -((i64)own_zero * own) - (i64)residual_zero * residual;
  f.rounding = (i64)(RESIDUAL == 2 ? 1 : 2 * zero + 1) << (f.shift - 1);
  f.result_addend = (i64)(2 * zero + 1) << (f.result_shift - 1);
  return f;
}

DEVICE_FN i32 plain_sum_code(i32 code, i32 residual, SumFactor f) {
  const i64 own = between(code, 0, MOST_CODE);
#if RESIDUAL == 2
  // Sums below 0 become 0, however their halves are rounded.
  const i64 s = own * f.own + (i64)residual * f.residual + (f.addend + f.rounding);
  const i64 v = between((i32)(s >> f.shift), 0, f.most);
  return (i32)((v * f.multiplier + f.result_addend) >> f.result_shift);
#else
  const i64 s = own * f.own + (i64)residual * f.residual + f.addend;
  return (i32)((s + (s >> 63) + f.rounding) >> f.shift);
#endif
}
