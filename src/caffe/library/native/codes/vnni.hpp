// AVX512-VNNI, and AVX512-IFMA for the factors.
#pragma once

namespace caffe {
namespace {

// The same as Factors for shifts of 32 to 53: 2^53 / 2^shift times the multipliers.
struct UpperFactors {
  V even, odd;
};

constexpr int kMostUpperShift = 53;

// sum + the bits of a * b from 2^52 on. The statement lets processors without the instruction have
// the other functions of this file.
DEVICE_FN V AddUpper(V sum, V a, V b) {
  asm("vpmadd52huq %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

// Twice the quotient, rounded down, is halved and rounded.
DEVICE_FN V Magnitude(V a, const UpperFactors& f) {
  const V even = AddUpper(Set64(1), Even(a), f.even), odd = AddUpper(Set64(1), Odd(a), f.odd);
  return _mm512_srli_epi32(Join(even, odd), 1);
}

void MakeFactors(V multiplier, V shift, UpperFactors* f) {
  const V left = Sub(Set(kMostUpperShift), shift);
  f->even = Left64(Even(multiplier), Even(left));
  f->odd = Left64(Odd(multiplier), Odd(left));
}

// Upper factors, if the processor has AVX512-IFMA and all shifts fit.
template <bool kUpper> struct Upper {
  template <class Call>
  static void With(const ByteOutput& o, long channel, long count, const Call& call) {
    int most = 0;
    for (long c = channel; c < channel + count; ++c) most = o.shift[c] > most ? o.shift[c] : most;
    if (kUpper && most <= kMostUpperShift) return call(UpperFactors{});
    call(Factors{});
  }
};

// For codes of bytes and their windows, see byte_windows.hpp.
using ByteWeights = V;
DEVICE_FN V MakeByteWeights(V bytes) { return bytes; }
DEVICE_FN V Dot(V sum, V codes, V weights) { return _mm512_dpbusd_epi32(sum, codes, weights); }

}  // namespace
}  // namespace caffe
