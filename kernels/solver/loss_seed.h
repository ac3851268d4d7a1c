//! types: float
//! tests: solver
// The gradient at which backpropagation of a loss starts: its weight times the loss scale, which is
// stored on the device.
KERNEL(loss_seed, ARG(i64, n), IN(f32, reals), OUT(Dtype, diff), ARG(i32, place),
       ARG(Acctype, weight)) {
  FOR_EACH(i, n) STORE(Dtype, diff, i, weight * LOAD(f32, reals, place));
}
