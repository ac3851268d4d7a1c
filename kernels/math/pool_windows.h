// Windows of one axis. `at` is an element of the padded image.
// The first window that contains it, and the one behind the last.
DEVICE_FN i32 first_window(i32 at, i32 kernel_size, i32 stride) {
  return at < kernel_size ? 0 : (at - kernel_size) / stride + 1;
}
DEVICE_FN i32 end_window(i32 at, i32 stride, i32 windows) {
  return at / stride + 1 < windows ? at / stride + 1 : windows;
}
// The elements of window `o` in the padded image.
DEVICE_FN i32 window_extent(i32 o, i32 kernel_size, i32 stride, i32 size, i32 pad) {
  const i32 rest = size + 2 * pad - o * stride;
  return kernel_size < rest ? kernel_size : rest;
}
