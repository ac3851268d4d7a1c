//! types: once
// The count of training forwards, on the device: see StepState.
KERNEL(step_advance, ARG(i64, n), OUT(i32, counters)) {
  FOR_EACH(i, n) STORE(i32, counters, i, LOAD(i32, counters, i) + 1);
}
