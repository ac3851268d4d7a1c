// Rows of packed weights: element e = (jh folded_w + jw) padded + c belongs to position (jh, jw) of
// a window of folded_h x folded_w positions, each of which holds fold_h x fold_w pixels, as in
// conv/channels_last.h. Its weight in a filter [channels, kernel_h, kernel_w] whose channels begin
// at the channel `first` of a position, or -1.
DEVICE_FN i32 packed_element(i32 e, i32 first, i32 channels, i32 padded, i32 fold_h, i32 fold_w,
                             i32 kernel_h, i32 kernel_w, i32 folded_h, i32 folded_w) {
  const i32 tap = e / padded, c = e - tap * padded - first;
  const i32 jh = tap / folded_w, jw = tap - jh * folded_w;
  const i32 pixel = c / channels, channel = c - pixel * channels;
  const i32 rh = pixel / fold_w, rw = pixel - rh * fold_w;
  const i32 h = jh * fold_h + rh, w = jw * fold_w + rw;
  const i32 used = c >= 0 && jh < folded_h && rh < fold_h && h < kernel_h && w < kernel_w;
  return used ? (channel * kernel_h + h) * kernel_w + w : -1;
}

// The index of the weight in [out, channels, kernel_h, kernel_w], or -1. Each `group_out` outputs
// have `channels` of their own; without groups it is the number of outputs.
DEVICE_FN i64 packed_source(i64 o, i32 e, i32 channels, i32 padded, i32 fold_h, i32 fold_w,
                            i32 kernel_h, i32 kernel_w, i32 folded_h, i32 folded_w,
                            i32 group_out) {
  const i32 first = (i32)(o / group_out) * channels;
  const i32 element = packed_element(e, first, channels, padded, fold_h, fold_w, kernel_h, kernel_w,
                                     folded_h, folded_w);
  return element < 0 ? -1 : o * channels * kernel_h * kernel_w + element;
}
