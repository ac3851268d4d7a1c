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

// Loops of kernels whose arguments are images [images, height, width, channels], and windows
// [images, out_height, out_width, channels]. In C order each plane is an image of one channel. An
// item is a block of channels of one position; a row of items is a line of positions if there is
// one channel, otherwise a position. POSITION declares the position's indices, the first channel c
// of the block and the number of its channels.
#define LANES LANES_OF(channels)
#define PER_POSITION HAS_LANES(channels)
#define FOR_EACH_POSITION(lines, columns)                                    \
  FOR_EACH_BLOCK(r_, images * (lines) * (PER_POSITION ? (columns) : 1), j_,  \
                 PER_POSITION ? LANES : (columns))
#define POSITION(lines, columns)                                                   \
  const Index line_ = PER_POSITION ? r_ / (columns) : r_, image = line_ / (lines); \
  const i32 row = (i32)(line_ - image * (lines));                                  \
  const i32 column = (i32)(PER_POSITION ? r_ - line_ * (columns) : j_);            \
  const Index position = line_ * (columns) + column, c = PER_POSITION ? j_ : 0;    \
  const Index count = BLOCK_COUNT(c, LANES);
// The elements of the window at row and column: FOR_EACH_TAP is a loop over them, TAP the index of
// the block in x.
#define WINDOW                                                     \
  const i32 h0 = row * stride_h - pad_h, w0 = column * stride_w - pad_w; \
  const i32 h1 = h0 + kernel_h < height ? h0 + kernel_h : height;  \
  const i32 w1 = w0 + kernel_w < width ? w0 + kernel_w : width;
#define FOR_EACH_TAP(h, w)                       \
  for (i32 h = h0 > 0 ? h0 : 0; h < h1; ++h)     \
    for (i32 w = w0 > 0 ? w0 : 0; w < w1; ++w)
#define TAP(h, w) (((image * height + (h)) * width + (w)) * LANES + c)
// The windows that contain the element at row and column, and the index of the block in y.
#define WINDOWS                                                  \
  const i32 h0 = first_window(row + pad_h, kernel_h, stride_h);  \
  const i32 h1 = end_window(row + pad_h, stride_h, out_height);  \
  const i32 w0 = first_window(column + pad_w, kernel_w, stride_w); \
  const i32 w1 = end_window(column + pad_w, stride_w, out_width);
#define WINDOW_AT(oh, ow) (((image * out_height + (oh)) * out_width + (ow)) * LANES + c)
