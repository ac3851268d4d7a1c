// Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/code_sum_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
#include "caffe/library/native/codes/level.hpp"
// clang-format on

namespace caffe {
namespace {

// clang-format off
#include "math/requantize.h"
#include "epilogue/residual_code.h"
// clang-format on

// Beyond all codes, as in epilogue/code_sum.h.
constexpr int kBeyond = 1 << 20;

template <class Code>
void AddSome(const CodeSumRows& r, const Code* residual, Code* y, long begin, long end) {
  const i32 most = static_cast<Code>(~Code{0});
  for (long i = begin; i < end; ++i) {
    const i64 v =
        residual_code(y[i] - r.zero_own, residual[i] - r.zero_residual, r.own, r.factor, r.shift,
                      -r.zero_sum, most - r.zero_sum, r.relu, r.multiplier, r.rescale_shift) +
        (r.relu ? r.zero_result : r.zero_sum);
    y[i] = static_cast<Code>(v < 0 ? 0 : v > most ? most : v);
  }
}

// Whether the shifts have a rounding term, or need none. Products have less than 2^49.
bool Fast(const CodeSumRows& r) {
  return r.shift >= 0 && r.shift <= 62 &&
         (!r.relu || (r.rescale_shift >= 0 && r.rescale_shift <= 62));
}

// A factor as 2^16 upper + lower, both with a sign.
int Lower(int factor) { return static_cast<i16>(factor); }
int Upper(int factor) { return static_cast<int>((static_cast<i64>(factor) - Lower(factor)) >> 16); }

// Whether AddBytes computes the sums of codes of 8 bits.
bool FastBytes(const CodeSumRows& r) {
  const auto fits = [](int factor) { return Upper(factor) <= 32767; };
  const auto between = [](int shift) { return shift >= 17 && shift <= 46; };
  return r.bytes == 1 && fits(r.own) && fits(r.factor) && between(r.shift) &&
         (!r.relu || (r.multiplier >= 0 && between(r.rescale_shift)));
}

// floor((2^16 upper + lower) / 2^shift), rounded half away from zero: floor((x + half - (x < 0)) /
// 2^shift). `half` is 2^shift / 2^17. kPositive: results below 0 need not be exact.
template <bool kPositive> DEVICE_FN V Quotient(V upper, V lower, V half, int upper_shift) {
  V carry = Right<16>(lower);
  if (!kPositive) carry = Right<16>(Add(lower, Right<31>(Add(upper, carry))));
  return Right(Add(Add(upper, half), carry), upper_shift);
}

// round(|v| / 2^shift), at most kBeyond, with the sign of v, in lanes of 64 bits. `half` is 2^shift
// / 2.
DEVICE_FN V Shifted(V v, V half, V shift) {
  return WithSign64(Least64(Right64(Add64(Abs64(v), half), shift), Set64(kBeyond)), v);
}

// Codes of 8 bits. Pairs of them are multiplied with the upper and the lower halves of both
// factors.
template <bool kReLU> void AddBytes(const CodeSumRows& r) {
  constexpr long kBytes = sizeof(V);
  const auto factors = [](int first, int second) {
    return Set(static_cast<int>(static_cast<u32>(second) << 16 | static_cast<u16>(first)));
  };
  const auto half = [](int shift) { return Set(static_cast<int>(1L << (shift - 17))); };
  const V zeros = factors(r.zero_own, r.zero_residual);
  const V upper = factors(Upper(r.own), Upper(r.factor));
  const V lower = factors(Lower(r.own), Lower(r.factor));
  const V half_sum = half(r.shift);
  const int shift = r.shift - 16, rescale_shift = r.rescale_shift - 16;
  const V none = Set(0), zero_sum = SetWords(r.zero_sum);
  const V most = SetWords(255 - r.zero_sum), zero_result = SetWords(r.zero_result);
  // Values without a sign times a multiplier: 2^16 (v upper + the upper half of v lower) + less.
  const V rescale_lower = SetWords(r.multiplier & 0xffff);
  const V rescale_upper = factors(r.multiplier >> 16, 1);
  const V half_rescale = kReLU ? half(r.rescale_shift) : none;
  const auto quotient = [&](V codes) {
    const V pairs = SubWords(codes, zeros);
    return Quotient<kReLU>(Pairs(pairs, upper), Pairs(pairs, lower), half_sum, shift);
  };
  const auto rescaled = [&](V pairs) {
    return Right(Add(Pairs(pairs, rescale_upper), half_rescale), rescale_shift);
  };
  // The results, in lanes of 16 bits, for bytes of y and of the residual in turns. Bytes() bounds
  // them.
  const auto sums = [&](V bytes) {
    const V low = quotient(LowBytes(bytes, none)), high = quotient(HighBytes(bytes, none));
    if (!kReLU) return AddSaturated(PackedWords(low, high), zero_sum);
    const V v = LeastUnsigned(PackedUnsigned(low, high), most);
    const V less = UpperProduct(v, rescale_lower);
    return AddSaturated(PackedWords(rescaled(LowWords(v, less)), rescaled(HighWords(v, less))),
                        zero_result);
  };
  const auto add = [&](const u8* residual, u8* y) {
    const V own = Load(y), other = Load(residual);
    Store(y, PackedBytes(sums(LowBytes(own, other)), sums(HighBytes(own, other))));
  };
  for (long row = 0; row < r.rows; ++row) {
    const u8* residual = static_cast<const u8*>(r.residual) + row * r.residual_stride;
    u8* y = static_cast<u8*>(r.y) + row * r.y_stride;
    long i = 0;
    for (; i + kBytes <= r.n; i += kBytes) add(residual + i, y + i);
    if (i == r.n) continue;
    u8 own[kBytes] = {}, other[kBytes] = {};
    __builtin_memcpy(own, y + i, r.n - i);
    __builtin_memcpy(other, residual + i, r.n - i);
    add(other, own);
    __builtin_memcpy(y + i, own, r.n - i);
  }
}

template <class Code> void AddRow(const CodeSumRows& r, const Code* residual, Code* y) {
  const int most = static_cast<Code>(~Code{0});
  const V zero_own = Set(r.zero_own), zero_residual = Set(r.zero_residual);
  const V own = Set(r.own), factor = Set(r.factor), zero_sum = Set(r.zero_sum);
  const V half = Set64(1L << r.shift >> 1), none = Set(0), all = Set(most);
  const V multiplier = Set(r.multiplier), zero_result = Set(r.zero_result);
  const V rescale_half = Set64(r.relu ? 1L << r.rescale_shift >> 1 : 0);
  const V shift = Set64(r.shift), rescale_shift = Set64(r.relu ? r.rescale_shift : 0);
  long i = 0;
  for (; i + kLanes <= r.n; i += kLanes) {
    const V a = Sub(Widened(y + i), zero_own);
    const V b = Sub(Widened(residual + i), zero_residual);
    const V even = Add64(Product(a, own), Product(b, factor));
    const V odd = Add64(Product(Odd(a), own), Product(Odd(b), factor));
    V s = Join(Shifted(even, half, shift), Shifted(odd, half, shift));
    s = Between(Add(s, zero_sum), none, all);
    if (r.relu) {
      const V v = Between(Sub(s, zero_sum), none, all);
      const V v_even = Shifted(Product(v, multiplier), rescale_half, rescale_shift);
      const V v_odd = Shifted(Product(Odd(v), multiplier), rescale_half, rescale_shift);
      s = Between(Add(Join(v_even, v_odd), zero_result), none, all);
    }
    StoreCodes(y + i, s);
  }
  AddSome(r, residual, y, i, r.n);
}

template <class Code> void AddRows(const CodeSumRows& r) {
  for (long i = 0; i < r.rows; ++i) {
    const Code* residual = static_cast<const Code*>(r.residual) + i * r.residual_stride;
    Code* y = static_cast<Code*>(r.y) + i * r.y_stride;
    if (Fast(r)) {
      AddRow(r, residual, y);
      continue;
    }
    AddSome(r, residual, y, 0, r.n);
  }
}

void AddOf(const CodeSumRows& r) {
  // Rows without gaps are one row.
  if (r.y_stride == r.n && r.residual_stride == r.n && r.rows > 1) {
    CodeSumRows one = r;
    one.n = r.rows * r.n;
    one.rows = 1;
    return AddOf(one);
  }
  if (FastBytes(r)) return r.relu ? AddBytes<true>(r) : AddBytes<false>(r);
  r.bytes == 1 ? AddRows<u8>(r) : AddRows<u16>(r);
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const CodeSumSteps CAFFE_JOIN(code_sum_steps_, CAFFE_HOST_LEVEL);
constinit const CodeSumSteps CAFFE_JOIN(code_sum_steps_, CAFFE_HOST_LEVEL){&AddOf};

}  // namespace caffe
