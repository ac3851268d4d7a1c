// Compiled once per instruction level, as CAFFE_HOST_LEVEL. Every operation is rounded as IEEE 754
// says, and none are contracted, so all levels give the same bits.
#include "caffe/layer/random_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
// clang-format on

namespace caffe {
namespace {

#include "math/random.h"

// Numbers that are computed together, in arrays in the first cache.
constexpr long kNumbers = 256;

// Exact: a word as a signed number can be converted by all processors.
inline double FromWord(u32 word) {
  return static_cast<double>(static_cast<i32>(word ^ 0x80000000u)) + 2147483648.0;
}

// A number in [0, 1) from 53 random bits.
inline double Unit(u32 high, u32 low) {
  return (FromWord(high) * 0x1p21 + FromWord(low >> 11)) * 0x1p-53;
}

// u = 2^k m with m in [sqrt(1/2), sqrt(2)), and log(m) = 2 artanh(s) with s = (m - 1) / (m + 1), by
// its series: s^2 is below 0.03.
inline double LogOf(double u) {
  constexpr u64 kSqrtHalf = 0x3FE6A09E667F3BCDull;
  const u64 bits = __builtin_bit_cast(u64, u) + (0x3FF0000000000000ull - kSqrtHalf);
  const u64 exponent = bits >> 52;  // k + 1023
  const double m = __builtin_bit_cast(double, (bits & 0x000FFFFFFFFFFFFFull) + kSqrtHalf);
  // The exponent becomes the last bits of 2^52.
  const double k = __builtin_bit_cast(double, exponent | 0x4330000000000000ull) - (0x1p52 + 1023);
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 23;
  sum = sum * z + 1.0 / 21;
  sum = sum * z + 1.0 / 19;
  sum = sum * z + 1.0 / 17;
  sum = sum * z + 1.0 / 15;
  sum = sum * z + 1.0 / 13;
  sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9;
  sum = sum * z + 1.0 / 7;
  sum = sum * z + 1.0 / 5;
  sum = sum * z + 1.0 / 3;
  return k * 0.693147180559945309417 + (2 * s + 2 * s * (z * sum));
}

// The nearest quarter of a turn is taken off exactly; the rest is below pi / 4, where few terms of
// the series of sine and cosine suffice.
inline double CosOfTurns(double v) {
  const i32 quarter = static_cast<i32>(v * 4 + 0.5);
  const double a = (v * 4 - quarter) * 1.57079632679489661923, z = a * a;
  double sine = 1.0 / 355687428096000;
  sine = sine * z - 1.0 / 1307674368000;
  sine = sine * z + 1.0 / 6227020800;
  sine = sine * z - 1.0 / 39916800;
  sine = sine * z + 1.0 / 362880;
  sine = sine * z - 1.0 / 5040;
  sine = sine * z + 1.0 / 120;
  sine = sine * z - 1.0 / 6;
  sine = a + a * (z * sine);
  double cosine = 1.0 / 20922789888000;
  cosine = cosine * z - 1.0 / 87178291200;
  cosine = cosine * z + 1.0 / 479001600;
  cosine = cosine * z - 1.0 / 3628800;
  cosine = cosine * z + 1.0 / 40320;
  cosine = cosine * z - 1.0 / 720;
  cosine = cosine * z + 1.0 / 24;
  cosine = cosine * z - 1.0 / 2;
  cosine = 1 + z * cosine;
  const double size = quarter & 1 ? sine : cosine;
  return (quarter + 1) & 2 ? -size : size;
}

inline long Least(long a, long b) { return a < b ? a : b; }

struct Words {
  u32 v0[kNumbers], v1[kNumbers], v2[kNumbers], v3[kNumbers];
};

inline void Draw(u64 seed, u64 first, Words* words) {
  for (long i = 0; i < kNumbers; ++i) {
    const Random4 random = philox(first + static_cast<u64>(i), seed);
    words->v0[i] = random.v0;
    words->v1[i] = random.v1;
    words->v2[i] = random.v2;
    words->v3[i] = random.v3;
  }
}

void Uniform(unsigned long seed, unsigned long first, long count, double* y) {
  Words words;
  for (long begin = 0; begin < count; begin += kNumbers) {
    Draw(seed, first + static_cast<u64>(begin), &words);
    const long size = Least(kNumbers, count - begin);
    for (long i = 0; i < size; ++i) y[begin + i] = Unit(words.v0[i], words.v1[i]);
  }
}

void Normal(unsigned long seed, unsigned long first, long count, double* y) {
  Words words;
  for (long begin = 0; begin < count; begin += kNumbers) {
    Draw(seed, first + static_cast<u64>(begin), &words);
    double squares[kNumbers];
    for (long i = 0; i < kNumbers; ++i) {
      squares[i] = -2 * LogOf(1 - Unit(words.v0[i], words.v1[i]));
    }
    const long size = Least(kNumbers, count - begin);
    for (long i = 0; i < size; ++i) {
      y[begin + i] = __builtin_sqrt(squares[i]) * CosOfTurns(Unit(words.v2[i], words.v3[i]));
    }
  }
}

void Log(const double* u, long count, double* y) {
  for (long i = 0; i < count; ++i) y[i] = LogOf(u[i]);
}

void CosOfManyTurns(const double* v, long count, double* y) {
  for (long i = 0; i < count; ++i) y[i] = CosOfTurns(v[i]);
}

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
extern const RandomSteps CAFFE_JOIN(random_steps_, CAFFE_HOST_LEVEL);
constinit const RandomSteps CAFFE_JOIN(random_steps_, CAFFE_HOST_LEVEL){&Uniform, &Normal, &Log,
                                                                        &CosOfManyTurns};

}  // namespace caffe
