//! types: float quantized
// The order of Darknet's reorg. Element (k, h, w) of an array [channels, height, width] belongs to
// element (k % parts, h stride + k / parts / stride, w stride + k / parts % stride) of an array
// [parts, height stride, width stride] in the same memory, where parts = channels / stride^2.
// Without `spread` y is the first array and x the second; with `spread`, x is the first.
KERNEL(reorg, ARG(i64, count), ARG(i64, channels), ARG(i64, height), ARG(i64, width),
       ARG(i64, stride), ARG(i32, spread), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, count) {
    const Index parts = channels / (stride * stride), plane = height * width;
    const Index image = i / (channels * plane), at = i - image * channels * plane;
    // The position in the first array.
    const Index k = at / plane, h = (at - k * plane) / width, w = at % width;
    const Index part = k / parts;
    const Index far = w * stride + part % stride +
                      width * stride *
                          (h * stride + part / stride + height * stride * (k % parts));
    // The position in the second one.
    const Index wide = width * stride, large = plane * stride * stride, c = at / large;
    const Index row = (at - c * large) / wide, column = at % wide;
    const Index from = column / stride + width * (row / stride +
                       height * ((row % stride * stride + column % stride) * parts + c));
    STORE(MOtype, y, i, LOAD(MItype, x, image * channels * plane + (spread ? from : far)));
  }
}
