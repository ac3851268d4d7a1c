//! types: float
//! tests: library
//! runs: device
// A convolution as one of windows of 3x3 with stride 1, for algorithms that are fast there.
// Position (jh, jw) of the new image holds, as channels, the pixels of a stride (fold_h x fold_w),
// of the blocks of 3 strides that cover the window (blocks_h x blocks_w). Padding is part of it;
// elements that stand for nothing are 0. Both kernels have one row for each new channel:
//   (((image * group + g) * blocks + block) * folds + fold) * channels + c
// where channels is the number of channels of a group, and block and fold count their columns last.

// x [images, group * channels, in_h, in_w] to y [rows / new channels of an image, ..., new_h,
// new_w].
KERNEL(split_images, ARG(i64, rows), FOLD(i32, channels), FOLD(i32, in_h), FOLD(i32, in_w),
       FOLD(i32, group), FOLD(i32, fold_h), FOLD(i32, fold_w), FOLD(i32, blocks_h),
       FOLD(i32, blocks_w), FOLD(i32, pad_h), FOLD(i32, pad_w), FOLD(i32, new_h), FOLD(i32, new_w),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(line, rows * new_h, jw, new_w) {
    const Index r = (Index)line / new_h, jh = (Index)line - r * new_h;
    const Index of_fold = r / channels, c = r - of_fold * channels;
    const Index of_block = of_fold / (fold_h * fold_w);
    const Index fold = of_fold - of_block * (fold_h * fold_w);
    const Index of_group = of_block / (blocks_h * blocks_w);
    const Index block = of_block - of_group * (blocks_h * blocks_w);
    const Index rh = fold / fold_w, rw = fold - rh * fold_w;
    const Index bh = block / blocks_w, bw = block - bh * blocks_w;
    const Index h = (jh + 3 * bh) * fold_h + rh - pad_h;
    const Index w = ((Index)jw + 3 * bw) * fold_w + rw - pad_w;
    const i32 inside = h >= 0 && h < in_h && w >= 0 && w < in_w;
    const i64 from = ((i64)(of_group * channels + c) * in_h + h) * in_w + w;
    STORE(MOtype, y, line * new_w + jw, inside ? LOAD(MItype, x, from) : 0);
  }
}

// Weights x [out, channels, kernel_h, kernel_w] to y [out, new channels of a group, 3, 3]. An
// output channel takes the place of an image, and there is one group.
KERNEL(split_weights, ARG(i64, rows), FOLD(i32, channels), ARG(i32, kernel_h), ARG(i32, kernel_w),
       FOLD(i32, fold_h), FOLD(i32, fold_w), FOLD(i32, blocks_h), FOLD(i32, blocks_w),
       IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, tap, 9) {
    const Index of_fold = (Index)r / channels, c = (Index)r - of_fold * channels;
    const Index of_block = of_fold / (fold_h * fold_w);
    const Index fold = of_fold - of_block * (fold_h * fold_w);
    const Index o = of_block / (blocks_h * blocks_w);
    const Index block = of_block - o * (blocks_h * blocks_w);
    const Index rh = fold / fold_w, rw = fold - rh * fold_w;
    const Index bh = block / blocks_w, bw = block - bh * blocks_w;
    const Index jh = (Index)tap / 3, jw = (Index)tap - jh * 3;
    const Index h = (jh + 3 * bh) * fold_h + rh, w = (jw + 3 * bw) * fold_w + rw;
    const i32 used = h < kernel_h && w < kernel_w;
    const i64 from = ((i64)(o * channels + c) * kernel_h + h) * kernel_w + w;
    STORE(MOtype, y, r * 9 + tap, used ? LOAD(MItype, x, from) : 0);
  }
}
