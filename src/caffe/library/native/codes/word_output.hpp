// The codes of 16 bits of sums of 64 bits, vector by vector: those of math/requantize.h.
#pragma once

namespace caffe {
namespace {

// Sums of the even and of the odd channels of a vector.
struct Sums {
  V even, odd;
};

// The requantization of a vector of channels, with integers. For shifts of at least 33,
// requantize_magnitude has one formula for sums of any size: otherwise they are not `fast`.
struct WordFactors {
  Sums bias, right, rounding;
  V multiplier, zero, lowest, highest;
  bool fast;
};

// Lane i is channel order[i]; those of -1 are not used. The codes are 32768 less in sums than they
// are, so that `sums` of the weights count 32768 times; null: they are not less.
void MakeFactors(const ByteOutput& o, const long* order, const long* sums, WordFactors* f) {
  alignas(64) i64 bias[2][kLanes / 2], right[2][kLanes / 2], rounding[2][kLanes / 2];
  alignas(64) i32 multiplier[kLanes];
  bool fast = !o.negative_multiplier;
  for (long i = 0; i < kLanes; ++i) {
    const long c = order[i];
    if (c >= 0 && o.shift[c] < 33) fast = false;
    // A shift of more than 95 yields 0, and so does 95.
    const i64 shift = c < 0 || o.shift[c] < 33 ? 33 : o.shift[c] > 95 ? 95 : o.shift[c];
    bias[i % 2][i / 2] = c < 0 ? 0 : o.bias[c] + (sums ? 32768 * sums[i] : 0);
    multiplier[i] = c < 0 ? 0 : o.multiplier[c];
    right[i % 2][i / 2] = shift - 32;
    rounding[i % 2][i / 2] = i64{1} << (shift - 33);
  }
  f->bias = {Load(bias[0]), Load(bias[1])};
  f->right = {Load(right[0]), Load(right[1])};
  f->rounding = {Load(rounding[0]), Load(rounding[1])};
  f->multiplier = Load(multiplier);
  f->zero = Set(o.zero_y);
  f->lowest = Set(o.lowest);
  f->highest = Set(o.highest);
  f->fast = fast;
}

DEVICE_FN V RequantizedWords(V sum, V bias, V multiplier, V right, V rounding) {
  // Beyond all codes.
  const V most = Set64(1 << 20), s = Add64(sum, bias), a = Abs64(s);
  const V upper = ProductU(Odd(a), multiplier), lower = Odd(ProductU(a, multiplier));
  return WithSign64(Least64(Right64(Add64(Add64(upper, lower), rounding), right), most), s);
}

DEVICE_FN V Codes(const Sums& s, const WordFactors& f) {
  const V even = RequantizedWords(s.even, f.bias.even, f.multiplier, f.right.even, f.rounding.even);
  const V odd = RequantizedWords(s.odd, f.bias.odd, Odd(f.multiplier), f.right.odd, f.rounding.odd);
  return Between(Add(Join(even, odd), f.zero), f.lowest, f.highest);
}

// A vector of channels of a product.
struct WordChannels {
  long channel, count;
  const long* sums;
  WordFactors factors;
};

void MakeChannels(const ByteOutput& o, long channel, const long* sums, WordChannels* w) {
  const long rest = o.channels - channel;
  long order[kLanes];
  for (long i = 0; i < kLanes; ++i) order[i] = i < rest ? channel + i : -1;
  w->channel = channel;
  w->count = rest < kLanes ? rest : kLanes;
  w->sums = sums;
  MakeFactors(o, order, sums, &w->factors);
}

DEVICE_FN void StoreWords(const ByteOutput& o, const WordChannels& w, const Sums& sums, long row) {
  u16* y = static_cast<u16*>(o.y) + row * o.y_stride;
  if (w.factors.fast) return StoreCodes(y + w.channel, Codes(sums, w.factors), w.count);
  alignas(64) i64 all[2][kLanes / 2];
  Store(all[0], sums.even);
  Store(all[1], sums.odd);
  for (long i = 0; i < w.count; ++i) {
    const long c = w.channel + i;
    const i64 bias = o.bias[c] + (w.sums ? 32768 * w.sums[i] : 0);
    y[c] = static_cast<u16>(Code(o, all[i % 2][i / 2] + bias, c));
  }
}

}  // namespace
}  // namespace caffe
