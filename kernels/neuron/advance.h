//! types: once
// Counts on the device: see ForwardCounter.
KERNEL(advance_counter, ARG(i64, n), OUT(i32, counters)) {
  FOR_EACH(i, n) STORE(i32, counters, i, LOAD(i32, counters, i) + 1);
}
