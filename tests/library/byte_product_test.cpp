// Products of codes of 8 bits with channels last, on the CPU, against their definition in exact
// arithmetic: all instructions that the processor has, all layouts and shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/native/byte_product.hpp"
#include "library/exact_codes.hpp"
#include "library/exact_requantize.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using exact::Numbers;
using test::Wide;

// The factors of channels, and what a sum adds.
struct Channels {
  std::vector<long> bias;
  std::vector<int> multiplier, shift, negative_multiplier, negative_shift;
  int zero_y = 0, lowest = 0, highest = 255;

  int64_t Code(int64_t products, int64_t c) const {
    const Wide v = static_cast<Wide>(products) + bias[c];
    const Requant factor{multiplier[c], shift[c]};
    int64_t r = test::ExactRequantize(v, factor);
    if (v < 0 && !negative_multiplier.empty()) {
      r = test::ExactRequantize(v, {std::abs(negative_multiplier[c]), negative_shift[c]});
      if (negative_multiplier[c] < 0) r = -r;
    }
    return std::clamp<int64_t>(r + zero_y, lowest, highest);
  }

  ByteOutput Output(void* y, long stride) const {
    ByteOutput o{};
    o.channels = static_cast<long>(bias.size());
    o.bias = bias.data();
    o.multiplier = multiplier.data();
    o.shift = shift.data();
    if (!negative_multiplier.empty()) {
      o.negative_multiplier = negative_multiplier.data();
      o.negative_shift = negative_shift.data();
    }
    o.zero_y = zero_y;
    o.lowest = lowest;
    o.highest = highest;
    o.y = y;
    o.y_stride = stride;
    return o;
  }
};

// kHalves: small sums, many of which lie between two codes.
enum class Kind { kPlain, kRelu, kSlope, kLargeFactors, kHalves };

Channels RandomChannels(int64_t count, int64_t depth, Kind kind, uint64_t seed) {
  Numbers numbers(seed);
  Channels channels;
  const double sums = 255 * 127 * 0.25 * std::sqrt(static_cast<double>(depth));
  for (int64_t c = 0; c < count; ++c) {
    const double large = kind == Kind::kLargeFactors && c % 3 == 0 ? sums * 3 : 255;
    const Requant factor =
        Requant::FromReal(large / sums * static_cast<double>(numbers.Next(1, 1000)) / 1000);
    const int64_t most = static_cast<int64_t>(std::min(sums, 0x1p30));
    channels.bias.push_back(numbers.Next(-most, most));
    channels.multiplier.push_back(factor.multiplier);
    channels.shift.push_back(factor.shift);
    if (kind != Kind::kSlope) continue;
    const Requant negative = Requant::FromReal(factor.real() * 0.3);
    channels.negative_multiplier.push_back(c % 2 ? -negative.multiplier : negative.multiplier);
    channels.negative_shift.push_back(negative.shift);
  }
  channels.zero_y = static_cast<int>(numbers.Next(0, 255));
  if (kind == Kind::kRelu) channels.lowest = channels.zero_y;
  return channels;
}

// The channels of codes of 16 bits, whose sums and codes are 257 times as large.
Channels RandomWordChannels(int64_t count, int64_t depth, Kind kind, uint64_t seed) {
  Channels channels = RandomChannels(count, depth, kind, seed);
  channels.highest = 65535;
  for (int64_t c = 0; c < count; ++c) {
    if (kind == Kind::kHalves) {
      channels.bias[c] = c % 5 - 2;
      channels.multiplier[c] = 1 << 30;
      channels.shift[c] = static_cast<int>(31 + c % 4);
      continue;
    }
    channels.bias[c] *= 65536;
    if (kind != Kind::kLargeFactors || c % 3) channels.shift[c] += 8;
    if (!channels.negative_shift.empty()) channels.negative_shift[c] += 8;
  }
  return channels;
}

class ByteStepsTest : public testing::TestWithParam<const ByteSteps*> {
 protected:
  // `worst`: 1, all operands are the largest; -1, weights are the smallest.
  void Check(int64_t rows, int64_t channels, int64_t k, Kind kind, int worst = 0) {
    CheckRows(rows, channels, k, kind, worst, false);
    if (ReadsRowsOf(*GetParam(), k)) CheckRows(rows, channels, k, kind, worst, true);
  }

  // `dense`: rows of a follow each other.
  void CheckRows(int64_t rows, int64_t channels, int64_t k, Kind kind, int worst, bool dense) {
    const ByteSteps& steps = *GetParam();
    Numbers numbers(static_cast<uint64_t>(rows * 1000 + channels + k));
    const PackedBytes packed(channels, k, 1);
    const int64_t depth = packed.depth(), pitch = channels + 3, stride = dense ? k : depth;
    // The memory behind a row must not matter.
    std::vector<uint8_t> a(rows * stride), w(channels * k), y(rows * pitch, 7);
    for (uint8_t& code : a) code = static_cast<uint8_t>(worst ? 255 : numbers.Next(0, 255));
    for (uint8_t& code : w) {
      code = static_cast<uint8_t>(worst > 0 ? 255 : worst < 0 ? 1 : numbers.Next(1, 255));
    }
    std::vector<char> b(packed.bytes());
    PackedBytes::Order order(k);
    for (int64_t i = 0; i < k; ++i) order[i] = i;
    packed.Pack(w.data(), order, b.data());
    Channels all = RandomChannels(channels, k, kind, 5);
    if (worst) std::fill(all.bias.begin(), all.bias.end(), worst * (1L << 30));
    CodeTile tile{rows, depth, stride, a.data(), stride, b.data(), all.Output(y.data(), pitch)};
    // The same sums without requantization.
    std::vector<int32_t> sums(rows * pitch, 7);
    CodeTile of_sums = tile;
    of_sums.output = {};
    of_sums.output.channels = static_cast<long>(channels);
    of_sums.output.result = ByteResult::kSums;
    of_sums.output.y = sums.data();
    of_sums.output.y_stride = pitch;
    if (steps.begin) steps.begin();
    steps.bytes.tile(tile);
    steps.bytes.tile(of_sums);
    if (steps.end) steps.end();
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(sums[i * pitch + c], 7);
      for (int64_t c = 0; c < channels; ++c) {
        int64_t sum = 0;
        for (int64_t p = 0; p < k; ++p) sum += a[i * stride + p] * (w[c * k + p] - 128);
        ASSERT_EQ(sums[i * pitch + c], static_cast<int32_t>(sum)) << steps.name;
        ASSERT_EQ(y[i * pitch + c], all.Code(sum, c))
            << steps.name << " " << rows << "x" << channels << "x" << k << " at " << i << ", " << c;
      }
      for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(y[i * pitch + c], 7);
    }
  }

  // Windows of `runs` lines of an image: rows overlap.
  void CheckImage(int64_t lines, int64_t rows, int64_t runs, int64_t run, int64_t channels,
                  Kind kind) {
    const ByteSteps& steps = *GetParam();
    Numbers numbers(static_cast<uint64_t>(rows * 1000 + channels + run));
    constexpr int64_t kRow = 12, kGap = 5;
    const int64_t k = runs * run, pitch = channels + 3, line = rows * kRow + run + kGap;
    const int64_t next_run = line * 2;
    const PackedBytes packed(channels, k, 1);
    std::vector<uint8_t> a((lines + 2 * runs) * line), w(channels * k);
    std::vector<uint8_t> y(lines * rows * pitch, 7);
    for (uint8_t& code : a) code = static_cast<uint8_t>(numbers.Next(0, 255));
    for (uint8_t& code : w) code = static_cast<uint8_t>(numbers.Next(1, 255));
    std::vector<char> b(packed.bytes());
    PackedBytes::Order order(k);
    for (int64_t i = 0; i < k; ++i) order[i] = i;
    packed.Pack(w.data(), order, b.data());
    const Channels all = RandomChannels(channels, k, kind, 5);
    CodeTile tile{rows, packed.depth(), k, a.data(), kRow, b.data(), all.Output(y.data(), pitch)};
    tile.lines = lines;
    tile.line_stride = line;
    tile.runs = runs;
    tile.run_stride = next_run;
    steps.bytes.tile(tile);
    for (int64_t i = 0; i < lines * rows; ++i) {
      const uint8_t* row = &a[i / rows * line + i % rows * kRow];
      for (int64_t c = 0; c < channels; ++c) {
        int64_t sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += row[p / run * next_run + p % run] * (w[c * k + p] - 128);
        }
        ASSERT_EQ(y[i * pitch + c], all.Code(sum, c))
            << steps.name << " " << lines << " lines of " << rows << " at " << i << ", " << c;
      }
      for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(y[i * pitch + c], 7);
    }
  }

  void CheckWindows(int64_t positions, int64_t channels, int64_t taps, Kind kind, int worst = 0) {
    const ByteSteps& steps = *GetParam();
    Numbers numbers(static_cast<uint64_t>(positions * 1000 + channels + taps));
    const PackedWindows packed(channels, taps);
    std::vector<uint8_t> x(positions * channels), w(channels * taps), zeros(channels, 99);
    for (uint8_t& code : x) code = static_cast<uint8_t>(worst ? 255 : numbers.Next(0, 255));
    for (uint8_t& code : w) {
      code = static_cast<uint8_t>(worst > 0 ? 255 : worst < 0 ? 1 : numbers.Next(1, 255));
    }
    std::vector<char> b(packed.bytes());
    packed.Pack(w.data(), b.data());
    const int64_t stride = packed.tap_stride(), pitch = channels + 5;
    std::vector<const void*> list(positions * stride, zeros.data());
    for (int64_t i = 0; i < positions; ++i) {
      for (int64_t t = 0; t < taps; ++t) {
        if ((i + t) % 5 == 0) continue;
        list[i * stride + t] = x.data() + (i * 3 + t) % positions * channels;
      }
    }
    std::vector<uint8_t> y(positions * pitch, 7);
    const Channels all = RandomChannels(channels, taps, kind, 9);
    CodeWindows windows{positions, stride, list.data(), b.data(), all.Output(y.data(), pitch)};
    steps.bytes.windows(windows);
    for (int64_t i = 0; i < positions; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        int64_t sum = 0;
        for (int64_t t = 0; t < taps; ++t) {
          sum += static_cast<const uint8_t*>(list[i * stride + t])[c] * (w[c * taps + t] - 128);
        }
        ASSERT_EQ(y[i * pitch + c], all.Code(sum, c))
            << steps.name << " " << channels << " channels, " << taps << " taps at " << i << ", "
            << c;
      }
      for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(y[i * pitch + c], 7);
    }
  }

  // Windows of 3x3 in an image of rows with a gap.
  void CheckLines(int64_t lines, int64_t width, int64_t channels, int64_t stride_h, int64_t stride,
                  Kind kind, int worst = 0) {
    const ByteSteps& steps = *GetParam();
    if (channels % steps.bytes.line_channels != 0) return;
    Numbers numbers(static_cast<uint64_t>(lines * 1000 + width + channels));
    const int64_t pitch = ((width - 1) * stride + 3) * channels + 5;
    std::vector<uint8_t> x(((lines - 1) * stride_h + 3) * pitch), w(channels * 12, 128);
    for (uint8_t& code : x) code = static_cast<uint8_t>(worst ? 255 : numbers.Next(0, 255));
    const auto tap = [](int64_t row, int64_t column) { return column * 4 + row; };
    for (int64_t i = 0; i < channels * 9; ++i) {
      w[i / 9 * 12 + tap(i % 9 / 3, i % 3)] =
          static_cast<uint8_t>(worst > 0   ? 255
                               : worst < 0 ? 1
                                           : numbers.Next(1, 255));
    }
    const PackedWindows packed(channels, 12);
    std::vector<char> b(packed.bytes());
    packed.Pack(w.data(), b.data());
    for (const int64_t y_pitch : {channels, channels + 5}) {
      std::vector<uint8_t> y(lines * width * y_pitch, 7);
      const Channels all = RandomChannels(channels, 9, kind, 9);
      const CodeLines tile{lines, width,    stride_h * pitch, stride,
                           pitch, x.data(), b.data(),         all.Output(y.data(), y_pitch)};
      const bool fast = !std::any_of(all.shift.begin(), all.shift.end(), [](int shift) {
        return shift < 32;
      }) && kind != Kind::kSlope;
      ASSERT_EQ(steps.bytes.lines(tile), fast);
      for (int64_t i = 0; i < lines * width; ++i) {
        for (int64_t c = 0; c < y_pitch; ++c) {
          int64_t sum = 0;
          for (int64_t t = 0; t < 9 && c < channels; ++t) {
            const int64_t row = i / width * stride_h + t / 3, column = i % width * stride + t % 3;
            sum += x[row * pitch + column * channels + c] * (w[c * 12 + tap(t / 3, t % 3)] - 128);
          }
          ASSERT_EQ(y[i * y_pitch + c], fast && c < channels ? all.Code(sum, c) : 7)
              << channels << " channels, " << lines << "x" << width << " windows at " << i << ", "
              << c;
        }
      }
    }
  }

  void CheckWordLines(int64_t lines, int64_t width, int64_t channels, int64_t stride_h,
                      int64_t stride, Kind kind, int worst = 0) {
    const ByteSteps& steps = *GetParam();
    if (channels % steps.words.line_channels != 0) return;
    Numbers numbers(static_cast<uint64_t>(lines * 1000 + width + channels));
    const int64_t pitch = ((width - 1) * stride + 4) * channels, y_pitch = channels + 5;
    std::vector<uint16_t> x(((lines - 1) * stride_h + 3) * pitch), w(channels * 12, 32768);
    std::vector<int16_t> centred;
    for (uint16_t& code : x) {
      code = static_cast<uint16_t>(worst                   ? 65535
                                   : kind == Kind::kHalves ? numbers.Next(0, 7)
                                                           : numbers.Next(0, 65535));
      centred.push_back(static_cast<int16_t>(code - 32768));
    }
    const auto tap = [](int64_t row, int64_t column) { return column * 4 + row; };
    for (int64_t i = 0; i < channels * 9; ++i) {
      w[i / 9 * 12 + tap(i % 9 / 3, i % 3)] =
          static_cast<uint16_t>(worst > 0               ? 65535
                                : worst < 0             ? 1
                                : kind == Kind::kHalves ? 32768 + numbers.Next(-3, 3)
                                                        : numbers.Next(1, 65535));
    }
    const PackedWindows packed(channels, 12);
    std::vector<char> b(packed.word_bytes());
    packed.Pack(w.data(), b.data());
    std::vector<uint16_t> y(lines * width * y_pitch, 7);
    Channels all = RandomWordChannels(channels, 9, kind, 9);
    if (worst) std::fill(all.bias.begin(), all.bias.end(), worst * (1L << 46));
    const CodeLines tile{lines, width,          stride_h * pitch, stride,
                         pitch, centred.data(), b.data(),         all.Output(y.data(), y_pitch)};
    const bool computes = steps.words.lines(tile);
    // Very large biases and factors may be left to the windows one by one; integers leave small
    // shifts to them, too.
    const bool shifts = kind == Kind::kHalves && steps.words.form == CodeForm::kWords;
    if (worst == 0 && kind != Kind::kLargeFactors && !shifts) {
      ASSERT_EQ(computes, kind != Kind::kSlope);
    }
    if (!computes) return;
    for (int64_t i = 0; i < lines * width; ++i) {
      for (int64_t c = 0; c < y_pitch; ++c) {
        int64_t sum = 0;
        for (int64_t t = 0; t < 9 && c < channels; ++t) {
          const int64_t row = i / width * stride_h + t / 3, column = i % width * stride + t % 3;
          sum += static_cast<int64_t>(x[row * pitch + column * channels + c]) *
                 (w[c * 12 + tap(t / 3, t % 3)] - 32768);
        }
        ASSERT_EQ(y[i * y_pitch + c], c < channels ? all.Code(sum, c) : 7)
            << channels << " channels, " << lines << "x" << width << " windows at " << i << ", "
            << c;
      }
    }
  }

  // `worst`: the bias has the largest magnitude, with this sign.
  void CheckWords(int64_t rows, int64_t channels, int64_t k, Kind kind, int worst,
                  const std::vector<uint16_t>& x, const std::vector<uint16_t>& w) {
    const ByteSteps& steps = *GetParam();
    const PackedBytes packed(channels, k, 1, steps.words.form);
    const int64_t depth = packed.depth(), pitch = channels + 3;
    std::vector<uint16_t> y(rows * pitch, 7);
    std::vector<uint8_t> a(rows * packed.row_bytes(), 99);
    for (int64_t i = 0; i < rows; ++i) {
      // In two parts.
      uint8_t* row = &a[i * packed.row_bytes()];
      steps.split(&x[i * k], k / 3, 0, k / 3, depth, row);
      steps.split(&x[i * k + k / 3], k - k / 3, k / 3, depth, depth, row);
    }
    std::vector<char> b(packed.bytes());
    PackedBytes::Order order(k);
    for (int64_t i = 0; i < k; ++i) order[i] = i;
    packed.Pack(w.data(), order, b.data());
    Channels all = RandomWordChannels(channels, k, kind, 5);
    if (worst) std::fill(all.bias.begin(), all.bias.end(), worst * (1L << 46));
    all.zero_y = 12345;
    all.lowest = kind == Kind::kRelu ? all.zero_y : 0;
    CodeTile tile{};
    tile.rows = rows;
    tile.depth = depth;
    tile.a = a.data();
    tile.a_stride = packed.row_bytes();
    tile.b = b.data();
    tile.output = all.Output(y.data(), pitch);
    steps.words.tile(tile);
    if (steps.end) steps.end();
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        int64_t sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += static_cast<int64_t>(x[i * k + p]) * (w[c * k + p] - 32768);
        }
        ASSERT_EQ(y[i * pitch + c], all.Code(sum, c))
            << steps.name << " " << rows << "x" << channels << "x" << k << " at " << i << ", " << c;
      }
      for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(y[i * pitch + c], 7);
    }
  }

  // CheckImage for codes of 16 bits.
  void CheckWordImage(int64_t lines, int64_t rows, int64_t runs, int64_t run, int64_t channels,
                      Kind kind) {
    const ByteSteps& steps = *GetParam();
    Numbers numbers(static_cast<uint64_t>(rows * 1000 + channels + run));
    constexpr int64_t kRow = 3, kGap = 5;
    const int64_t k = runs * run, pitch = channels + 3, line = rows * kRow + run + kGap;
    const int64_t next_run = line * 2, count = (lines + 2 * runs) * line;
    const PackedBytes packed(channels, k, 1, steps.words.form);
    std::vector<uint16_t> x(count), w(channels * k), y(lines * rows * pitch, 7);
    for (uint16_t& code : x) code = static_cast<uint16_t>(numbers.Next(0, 65535));
    for (uint16_t& code : w) code = static_cast<uint16_t>(numbers.Next(1, 65535));
    std::vector<uint8_t> image(3 * count);
    steps.split(x.data(), count, 0, count, count, image.data());
    std::vector<char> b(packed.bytes());
    PackedBytes::Order order(k);
    for (int64_t i = 0; i < k; ++i) order[i] = i;
    packed.Pack(w.data(), order, b.data());
    const Channels all = RandomWordChannels(channels, k, kind, 5);
    CodeTile tile{};
    tile.rows = rows;
    tile.depth = packed.depth();
    tile.a = image.data();
    tile.a_stride = kRow;
    tile.b = b.data();
    tile.output = all.Output(y.data(), pitch);
    tile.upper = image.data() + 2 * count;
    tile.used = k;
    tile.lines = lines;
    tile.line_stride = line;
    tile.runs = runs;
    tile.run_stride = next_run;
    steps.words.tile(tile);
    for (int64_t i = 0; i < lines * rows; ++i) {
      const uint16_t* row = &x[i / rows * line + i % rows * kRow];
      for (int64_t c = 0; c < channels; ++c) {
        int64_t sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += static_cast<int64_t>(row[p / run * next_run + p % run]) * (w[c * k + p] - 32768);
        }
        ASSERT_EQ(y[i * pitch + c], all.Code(sum, c))
            << steps.name << " " << lines << " lines of " << rows << " at " << i << ", " << c;
      }
      for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(y[i * pitch + c], 7);
    }
  }
};

TEST_P(ByteStepsTest, ProductsOfEveryNumberOfRowsAndChannels) {
  for (const int64_t rows : {1, 2, 3, 5, 11, 12, 16, 17, 31, 32, 33, 49, 70}) {
    for (const int64_t channels : {1, 15, 16, 17, 32, 33, 48, 67}) {
      Check(rows, channels, 70, Kind::kPlain);
    }
  }
  for (const int64_t k : {1, 3, 4, 12, 16, 48, 60, 63, 64, 65, 96, 200, 1028, 2100}) {
    Check(19, 35, k, Kind::kPlain);
  }
  Check(14, 300, 1100, Kind::kPlain);
}

TEST_P(ByteStepsTest, WindowsOfImages) {
  if (!GetParam()->reads_windows) GTEST_SKIP() << GetParam()->name << " reads rows";
  for (const int64_t rows : {1, 2, 8, 13, 14, 15, 28, 29, 55}) {
    CheckImage(3, rows, 3, 36, 40, Kind::kPlain);
  }
  CheckImage(1, 9, 1, 4, 32, Kind::kRelu);
  CheckImage(2, 20, 11, 44, 70, Kind::kRelu);
  CheckImage(2, 20, 2, 120, 70, Kind::kSlope);
}

TEST_P(ByteStepsTest, WindowsOfImagesOfWords) {
  const ByteSteps& steps = *GetParam();
  if (!steps.reads_windows || steps.words.form != CodeForm::kWordParts) {
    GTEST_SKIP() << steps.name << " reads rows";
  }
  for (const int64_t rows : {1, 2, 8, 13, 55, 97, 200}) {
    CheckWordImage(3, rows, 3, 36, 40, Kind::kPlain);
  }
  CheckWordImage(1, 9, 1, 4, 32, Kind::kRelu);
  // Slices end within a run.
  CheckWordImage(9, 20, 11, 44, 20, Kind::kRelu);
  CheckWordImage(2, 20, 2, 340, 70, Kind::kSlope);
}

TEST_P(ByteStepsTest, EveryEpilogue) {
  for (const Kind kind : {Kind::kRelu, Kind::kSlope, Kind::kLargeFactors}) {
    Check(35, 50, 90, kind);
    CheckWindows(20, 70, 9, kind);
  }
}

TEST_P(ByteStepsTest, WorstOperandsAtTheLimitOfDepth) {
  for (const int worst : {1, -1}) {
    Check(17, 18, kNarrowDepth, Kind::kPlain, worst);
    Check(1, 18, kNarrowDepth, Kind::kPlain, worst);
  }
}

TEST_P(ByteStepsTest, WindowsOfSingleChannels) {
  for (const int64_t channels : {1, 16, 40, 63, 64, 65, 130, 192}) {
    for (const int64_t taps : {1, 4, 9, 25, 81}) CheckWindows(37, channels, taps, Kind::kPlain);
  }
  for (const int worst : {1, -1}) CheckWindows(9, 48, 49, Kind::kPlain, worst);
}

TEST_P(ByteStepsTest, LinesOfWindowsOfSingleChannels) {
  for (const int64_t channels : {1, 16, 32, 63, 64, 65, 96, 130}) {
    for (const int64_t width : {1, 2, 3, 6, 7}) {
      CheckLines(width, width, channels, 1, 1, Kind::kPlain);
      CheckLines(3, width, channels, 2, 2, Kind::kRelu);
    }
  }
  CheckLines(4, 5, 32, 2, 1, Kind::kRelu);
  for (const int64_t channels : {70, 72, 80}) {
    CheckLines(4, 5, channels, 3, 1, Kind::kRelu);
    CheckLines(4, 5, channels, 1, 2, Kind::kRelu);
    CheckLines(2, 2, channels, 1, 1, Kind::kSlope);
    CheckLines(2, 2, channels, 1, 1, Kind::kLargeFactors);
  }
  for (const int worst : {1, -1}) CheckLines(3, 5, 48, 1, 1, Kind::kPlain, worst);
}

TEST_P(ByteStepsTest, LinesOfWindowsOfSingleChannelsOfWords) {
  for (const Kind kind : {Kind::kPlain, Kind::kRelu, Kind::kLargeFactors, Kind::kHalves}) {
    for (const int64_t channels : {32, 96}) {
      for (const int64_t width : {1, 2, 5}) {
        CheckWordLines(width, width, channels, 1, 1, kind);
        CheckWordLines(3, width, channels, 2, 2, kind);
      }
    }
  }
  CheckWordLines(2, 2, 8, 1, 1, Kind::kPlain);
  CheckWordLines(2, 2, 48, 1, 1, Kind::kPlain);
  CheckWordLines(2, 2, 64, 1, 1, Kind::kSlope);
  for (const int worst : {1, -1}) CheckWordLines(3, 5, 32, 1, 1, Kind::kPlain, worst);
}

// Codes and weights of 16 bits. Depths around the slices of sums of 32 bits.
TEST_P(ByteStepsTest, Words) {
  struct Case {
    int64_t rows, channels, k;
    Kind kind;
    int worst;
  };
  std::vector<Case> cases{{1, 1, 1, Kind::kPlain, 0},
                          {17, 18, kNarrowDepth, Kind::kPlain, 1},
                          {17, 18, kNarrowDepth, Kind::kPlain, -1},
                          {20, 40, 90, Kind::kRelu, 0},
                          {20, 40, 90, Kind::kSlope, 0},
                          {20, 40, 90, Kind::kLargeFactors, 0}};
  for (const int64_t k : {255, 256, 257, 512, 513, 800}) {
    for (const int worst : {-1, 0, 1}) cases.push_back({7, 24, k, Kind::kPlain, worst});
  }
  for (const int64_t rows : {2, 15, 16, 33}) {
    for (const int64_t channels : {7, 8, 9, 16, 25, 33}) {
      cases.push_back({rows, channels, 70, Kind::kPlain, 0});
    }
  }
  for (const auto& [rows, channels, k, kind, worst] : cases) {
    Numbers numbers(static_cast<uint64_t>(rows * 1000 + channels + k));
    std::vector<uint16_t> x(rows * k), w(channels * k);
    for (uint16_t& code : x) code = static_cast<uint16_t>(worst ? 65535 : numbers.Next(0, 65535));
    for (uint16_t& code : w) {
      code = static_cast<uint16_t>(worst > 0 ? 65535 : worst < 0 ? 1 : numbers.Next(1, 65535));
    }
    CheckWords(rows, channels, k, kind, worst, x, w);
  }
}

// Weights that are so small that 2 or 4 pairs of products are summed in 32 bits, or just too large.
TEST_P(ByteStepsTest, WordsInRuns) {
  constexpr int64_t kRows = 3, kChannels = 19, kDepth = 208;
  for (const int largest : {8191, 8192, 16383, 16384, 32767}) {
    for (const int code : {0, 65535, -1}) {
      Numbers numbers(6);
      std::vector<uint16_t> x(kRows * kDepth), w(kChannels * kDepth);
      for (uint16_t& v : x) v = static_cast<uint16_t>(code < 0 ? numbers.Next(0, 65535) : code);
      for (int64_t i = 0; i < kChannels * kDepth; ++i) {
        // Some channels have one sign, and the weights from 64 to 127 are smaller.
        const int64_t c = i / kDepth, most = i % kDepth / 64 == 1 ? largest / 4 : largest;
        const int64_t sign = c % 3 == 0 ? 1 : c % 3 == 1 ? -1 : numbers.Next(0, 1) * 2 - 1;
        w[i] = static_cast<uint16_t>(32768 + sign * most);
      }
      CheckWords(kRows, kChannels, kDepth, Kind::kPlain, 0, x, w);
    }
  }
}

// Sums half way between two codes, and all lengths of slices of sums, from the largest weights on.
TEST_P(ByteStepsTest, WordsBetweenCodesAndWeightsOfEverySize) {
  Numbers numbers(7);
  for (const int64_t rows : {1, 4, 7, 13}) {
    constexpr int64_t kChannels = 41, kDepth = 35;
    std::vector<uint16_t> x(rows * kDepth), w(kChannels * kDepth);
    for (uint16_t& code : x) code = static_cast<uint16_t>(numbers.Next(0, 7));
    for (uint16_t& code : w) code = static_cast<uint16_t>(32768 + numbers.Next(-3, 3));
    CheckWords(rows, kChannels, kDepth, Kind::kHalves, 0, x, w);
  }
  for (const int largest : {32767, 32640, 20000, 128, 0}) {
    for (const int code : {0, 255, 65280, 65535, -1}) {
      constexpr int64_t kRows = 8, kChannels = 37, kDepth = 1100;
      std::vector<uint16_t> x(kRows * kDepth), w(kChannels * kDepth);
      for (uint16_t& v : x) v = static_cast<uint16_t>(code < 0 ? numbers.Next(0, 65535) : code);
      for (int64_t i = 0; i < kChannels * kDepth; ++i) {
        // Some channels have one sign.
        const int64_t c = i / kDepth;
        const int64_t sign = c % 3 == 0 ? 1 : c % 3 == 1 ? -1 : numbers.Next(0, 1) * 2 - 1;
        w[i] = static_cast<uint16_t>(32768 + sign * (c < 20 ? largest : numbers.Next(0, largest)));
      }
      CheckWords(kRows, kChannels, kDepth, Kind::kPlain, 0, x, w);
    }
  }
}

TEST_P(ByteStepsTest, WindowsOfSingleChannelsOfWords) {
  const ByteSteps& steps = *GetParam();
  for (const Kind kind : {Kind::kPlain, Kind::kSlope, Kind::kLargeFactors, Kind::kHalves}) {
    for (const auto& [channels, kTaps] :
         {std::pair<int64_t, int64_t>{1, 9}, {8, 9}, {70, 9}, {64, 25}, {40, 1}, {33, 81}}) {
      constexpr int64_t kPositions = 7;
      Numbers numbers(static_cast<uint64_t>(channels));
      const PackedWindows packed(channels, kTaps);
      const int64_t stride = packed.tap_stride(), pitch = channels + 5;
      std::vector<uint16_t> x(kPositions * channels), w(channels * kTaps), zeros(channels, 999);
      for (uint16_t& code : x) {
        code =
            static_cast<uint16_t>(channels == 64 ? numbers.Next(0, 1) : numbers.Next(65000, 65535));
        if (kind == Kind::kHalves) code %= 8;
      }
      for (uint16_t& code : w) {
        code = static_cast<uint16_t>(channels == 40 ? 65535 : numbers.Next(1, 65535));
        if (kind == Kind::kHalves) code = static_cast<uint16_t>(32768 - 3 + code % 7);
      }
      std::vector<char> b(packed.word_bytes());
      packed.Pack(w.data(), b.data());
      std::vector<const void*> list(kPositions * stride, zeros.data());
      for (int64_t i = 0; i < kPositions; ++i) {
        for (int64_t t = 0; t < kTaps; ++t) {
          if ((i + t) % 5) list[i * stride + t] = x.data() + (i * 3 + t) % kPositions * channels;
        }
      }
      std::vector<uint16_t> y(kPositions * pitch, 7);
      const Channels all = RandomWordChannels(channels, kTaps, kind, 9);
      CodeWindows windows{kPositions, stride, list.data(), b.data(), all.Output(y.data(), pitch)};
      steps.words.windows(windows);
      for (int64_t i = 0; i < kPositions; ++i) {
        for (int64_t c = 0; c < channels; ++c) {
          int64_t sum = 0;
          for (int64_t t = 0; t < kTaps; ++t) {
            sum += int64_t{static_cast<const uint16_t*>(list[i * stride + t])[c]} *
                   (w[c * kTaps + t] - 32768);
          }
          ASSERT_EQ(y[i * pitch + c], all.Code(sum, c)) << steps.name << " " << channels;
        }
        for (int64_t c = channels; c < pitch; ++c) ASSERT_EQ(y[i * pitch + c], 7);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ByteStepsTest, testing::ValuesIn(AllByteSteps()),
                         [](const auto& info) { return std::string(info.param->name); });

// --- Convolutions --------------------------------------------------------------------------------

ConvDescriptor Conv(int64_t batch, int64_t in, Shape input, int64_t out, Shape kernel,
                    Shape stride = {}, Shape pad = {}, Shape dilation = {}, int64_t group = 1) {
  ConvDescriptor d;
  d.batch = batch;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry = {std::move(input), std::move(kernel), std::move(stride), std::move(pad),
                std::move(dilation)};
  d.in = d.out = kQuant8;
  d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.Normalize();
  return d;
}

// In place of `codes` in kNCHW.
template <class Code>
std::vector<Code> ChannelsLast(const std::vector<Code>& codes, int64_t channels,
                               int64_t positions) {
  std::vector<Code> last(codes.size());
  const int64_t image = channels * positions;
  for (int64_t i = 0; i < static_cast<int64_t>(codes.size()); ++i) {
    const int64_t c = i % image / positions, p = i % positions;
    last[i / image * image + p * channels + c] = codes[i];
  }
  return last;
}

class ByteConvolutionTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { SetHostLevel(GetParam()); }
  void TearDown() override { SetHostLevel(level_); }

  // Channels first or last in x and y, against exact sums.
  void Check(ConvDescriptor d, int64_t pitch = 0) {
    CheckType<uint8_t>(d, pitch);
    d.in = d.out = kQuant16;
    CheckType<uint16_t>(d, pitch);
  }

 private:
  template <class Code> void CheckType(ConvDescriptor d, int64_t pitch) {
    Device* device = Runtime::Get().cpu();
    Numbers numbers(3);
    const int64_t most = d.in.info().code_max;
    const int64_t positions = d.geometry.output_count();
    std::vector<Code> x(d.batch * d.in_channels * d.geometry.input_count());
    std::vector<Code> w(d.weight_count());
    for (Code& code : x) code = static_cast<Code>(numbers.Next(0, most));
    for (Code& code : w) code = static_cast<Code>(numbers.Next(1, most));
    Channels channels = RandomChannels(d.out_channels, d.depth(), Kind::kPlain, 4);
    for (int& shift : channels.shift) shift += d.in == kQuant16 ? 8 : 0;
    const auto bytes = [&](const auto& values) {
      auto memory = std::make_unique<test::Bytes>(
          device, static_cast<int64_t>(values.size() * sizeof(values[0])));
      device->Upload(*memory, values.data(), values.size() * sizeof(values[0]));
      return memory;
    };
    const auto bias = bytes(channels.bias), multiplier = bytes(channels.multiplier);
    const auto shift = bytes(channels.shift), weights = bytes(w);
    const QuantArguments quant{
        *bias, *multiplier, *shift, static_cast<int32_t>(most / 7), channels.zero_y, 1};
    const auto run = [&](const std::vector<Code>& from) {
      const auto input = bytes(from);
      const int64_t count = d.batch * positions * d.y_row();
      test::Bytes y(device, count * static_cast<int64_t>(sizeof(Code)));
      const auto op = Multiplexer::ConvolutionBy("native", device, d);
      test::Memory memory(device, op.get());
      ConvArguments forward{*input, *weights, {}, {}, y};
      forward.quant = &quant;
      forward = memory(forward);
      // Twice: the second finds whatever the first left in its workspace.
      for (int i = 0; i < 2; ++i) op->Forward(forward);
      std::vector<Code> result(count);
      device->Download(result.data(), y, count * sizeof(Code));
      return result;
    };
    exact::Channels all{
        {channels.bias.begin(), channels.bias.end()}, channels.multiplier, channels.shift};
    all.zero_x = quant.zero_x;
    all.zero_y = quant.zero_y;
    // The same operands at every level.
    static std::map<std::string, std::vector<int64_t>> known;
    std::vector<int64_t>& codes = known[d.key()];
    if (codes.empty()) codes = exact::Exact(d, {x.begin(), x.end()}, {w.begin(), w.end()}, all);
    const std::vector<Code> plain(codes.begin(), codes.end());
    EXPECT_EQ(run(x), plain) << d.name();
    const std::vector<Code> expected = ChannelsLast(plain, d.out_channels, positions);
    d.y_layout = Layout::kNHWC;
    d.y_pitch = pitch;
    for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      d.x_layout = layout;
      const bool last = layout == Layout::kNHWC;
      std::vector<Code> y =
          run(last ? ChannelsLast(x, d.in_channels, d.geometry.input_count()) : x);
      for (int64_t i = 0; pitch > 0 && i < d.batch * positions; ++i) {
        std::memmove(&y[i * d.out_channels], &y[i * pitch], d.out_channels * sizeof(Code));
      }
      y.resize(expected.size());
      EXPECT_EQ(y, expected) << d.name();
    }
  }

  const std::string level_ = HostLevel();
};

TEST_P(ByteConvolutionTest, WindowsStridesPadsDilationsAndGroups) {
  Check(Conv(2, 1, {9, 8}, 5, {5, 5}));
  Check(Conv(2, 3, {7, 9}, 4, {3, 2}, {2, 1}, {1, 2}));
  Check(Conv(3, 4, {8, 8}, 6, {3, 3}, {1, 1}, {2, 2}, {2, 3}, 2));
  Check(Conv(1, 6, {5, 5}, 6, {3, 3}, {1, 1}, {1, 1}, {}, 6));
  Check(Conv(2, 8, {12, 11}, 130, {3, 3}, {1, 1}, {1, 1}));
  Check(Conv(1, 3, {40, 41}, 20, {11, 11}, {4, 4}, {2, 2}));
  Check(Conv(1, 2, {30, 30}, 7, {19, 19}, {2, 2}, {3, 3}));
  Check(Conv(2, 70, {6, 5}, 70, {3, 3}, {2, 2}, {1, 1}, {}, 70));
  Check(Conv(1, 5, {9, 9}, 5, {5, 5}, {1, 1}, {2, 2}, {2, 2}, 5));
}

TEST_P(ByteConvolutionTest, PointwiseWithAndWithoutCopies) {
  Check(Conv(1, 64, {20, 20}, 40, {1, 1}));
  Check(Conv(2, 70, {3, 3}, 67, {1, 1}));
  Check(Conv(1, 256, {7, 7}, 512, {1, 1}));
  Check(Conv(2, 64, {9, 8}, 48, {1, 1}, {2, 2}));
}

TEST_P(ByteConvolutionTest, WeightsThatAreLargerThanTheImages) {
  Check(Conv(2, 40, {5, 5}, 300, {3, 3}, {}, {1, 1}));
  Check(Conv(1, 64, {4, 4}, 130, {3, 3}, {}, {1, 1}, {}, 2));
}

TEST_P(ByteConvolutionTest, WindowsOf3x3OfSingleChannels) {
  for (const int64_t channels : {32, 64, 70}) {
    Check(Conv(2, channels, {13, 12}, channels, {3, 3}, {1, 1}, {1, 1}, {}, channels));
    Check(Conv(1, channels, {13, 12}, channels, {3, 3}, {2, 2}, {1, 1}, {}, channels));
    Check(Conv(3, channels, {6, 5}, channels, {3, 3}, {1, 2}, {0, 2}, {}, channels), channels + 9);
    Check(Conv(1, channels, {6, 7}, channels, {3, 3}, {2, 1}, {}, {}, channels));
  }
  Check(Conv(1, 40, {2, 2}, 40, {3, 3}, {1, 3}, {1, 1}, {}, 40));
  Check(Conv(1, 40, {7, 7}, 40, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 40));
}

// Lines of at least 8 outputs are read as windows of the image where instructions can.
TEST_P(ByteConvolutionTest, LongLines) {
  Check(Conv(2, 8, {9, 17}, 130, {3, 3}, {1, 1}, {1, 1}));
  Check(Conv(1, 12, {25, 30}, 40, {5, 2}, {2, 3}, {3, 1}, {2, 1}));
  Check(Conv(1, 64, {9, 9}, 256, {3, 3}, {1, 1}, {1, 1}));
  Check(Conv(3, 64, {17, 16}, 96, {1, 1}, {2, 2}));
  Check(Conv(2, 8, {5, 12}, 20, {1, 1}, {1, 1}, {1, 2}));
  Check(Conv(2, 4, {37}, 6, {3}, {2}, {1}));
  for (const int64_t channels : {1, 2, 3, 4}) {
    Check(Conv(2, channels, {20, 33}, 34, {7, 7}, {2, 2}, {3, 3}));
  }
  // The products of a row of a window are not a multiple of 4, and there is no padding.
  Check(Conv(2, 10, {12, 12}, 5, {5, 5}));
  Check(Conv(3, 1, {28, 28}, 20, {5, 5}));
  Check(Conv(1, 7, {4, 230}, 17, {3, 3}, {1, 2}));
  Check(Conv(2, 8, {9, 17}, 20, {3, 3}, {1, 1}, {1, 1}), 33);
}

TEST_P(ByteConvolutionTest, OneAxisAndWindowsBeyondThePadding) {
  Check(Conv(2, 3, {17}, 4, {4}, {3}, {2}, {2}));
  Check(Conv(2, 3, {2, 3}, 4, {3, 5}, {2, 3}));
  Check(Conv(2, 2, {5, 2}, 3, {3, 5}, {1, 2}, {0, 1}));
}

TEST_P(ByteConvolutionTest, SumsBeyond32Bits) {
  // More than 2^15 products.
  Check(Conv(1, 3641, {4, 3}, 17, {3, 3}, {}, {1, 1}));
  Check(Conv(1, 2, {183, 182}, 2, {182, 181}, {}, {}, {}, 2));
}

TEST_P(ByteConvolutionTest, PartsOfLargerArrays) {
  Check(Conv(2, 8, {6, 6}, 20, {3, 3}, {}, {1, 1}), 33);
  Check(Conv(1, 16, {6, 6}, 16, {3, 3}, {}, {1, 1}, {}, 16), 40);
}

INSTANTIATE_TEST_SUITE_P(All, ByteConvolutionTest, testing::ValuesIn(HostLevels()),
                         [](const auto& info) { return info.param; });

// --- Pooling and layouts -------------------------------------------------------------------------

class CodesChannelsLastTest : public testing::TestWithParam<DeviceType> {};

std::vector<char> Read(Device* device, DevicePtr from, int64_t bytes) {
  std::vector<char> result(bytes);
  device->Download(result.data(), from, bytes);
  return result;
}

// From NCHW to NHWC and back.
TEST_P(CodesChannelsLastTest, ConversionsKeepCodes) {
  const auto [device, type] = GetParam();
  const int64_t bytes = 2 * 37 * 45 * static_cast<int64_t>(type.bytes());
  Numbers numbers(8);
  std::vector<char> codes(bytes);
  for (char& code : codes) code = static_cast<char>(numbers.Next(0, 255));
  const test::Bytes x(device, bytes), last(device, bytes), back(device, bytes);
  device->Upload(x, codes.data(), bytes);
  LayoutConverter converter(device, type);
  converter.Run(2, 37, 45, x, last, Layout::kNHWC);
  converter.Run(2, 37, 45, last, back, Layout::kNCHW);
  EXPECT_EQ(Read(device, back, bytes), codes);
  EXPECT_NE(Read(device, last, bytes), codes);
}

TEST_P(CodesChannelsLastTest, PoolingEqualsCOrder) {
  const auto [device, type] = GetParam();
  const int64_t element = static_cast<int64_t>(type.bytes());
  using Method = PoolDescriptor::Method;
  struct Window {
    int64_t kernel, stride, pad;
  };
  const Method methods[] = {Method::kMax, Method::kAverage};
  // Devices read 8 channels at once where 8 divides their number; the CPU reads lines of windows
  // with few channels, in vectors of three sizes.
  std::vector<int64_t> numbers_of_channels{300, 300, 304, 304};
  if (device->host_accessible()) {
    numbers_of_channels.insert(numbers_of_channels.end(), {1, 2, 10, 10, 16, 20, 32, 33, 50, 65});
  }
  for (size_t i = 0; i < numbers_of_channels.size(); ++i) {
    const int64_t channels = numbers_of_channels[i];
    const Method method = methods[i < 4 ? i % 2 : 0];
    std::vector<Window> windows{{3, 2, 0}, {3, 1, 1}, {2, 2, 0}};
    // On devices each of them is a program. With a stride of 4 the last windows lie beyond the
    // image.
    if (device->host_accessible()) {
      windows.insert(windows.end(), {{11, 1, 0}, {13, 1, 6}, {1, 4, 0}});
    }
    for (const auto& [kernel, stride, pad] : windows) {
      PoolDescriptor d;
      d.method = method;
      d.types = TypeTriple::Equal(type);
      d.planes = 2 * channels;
      const int64_t output = (11 + 2 * pad - kernel + stride - 1) / stride + 1;
      d.height = d.width = {11, output, kernel, stride, pad};
      const int64_t bytes = d.planes * 121 * element, result = d.planes * output * output * element;
      Numbers numbers(8);
      std::vector<char> codes(bytes);
      for (char& code : codes) code = static_cast<char>(numbers.Next(0, 255));
      std::vector<int32_t> factors(2 * kernel * kernel);
      for (int64_t i = 0; i < kernel * kernel; ++i) {
        const Requant factor = Requant::FromReal(1.7 / static_cast<double>(i + 1));
        factors[i] = factor.multiplier;
        factors[kernel * kernel + i] = factor.shift;
      }
      const int64_t half = kernel * kernel * 4;
      const test::Bytes x(device, bytes), x_last(device, bytes), y(device, result);
      const test::Bytes y_last(device, result), mask(device, result * 4), both(device, 2 * half);
      device->Upload(x, codes.data(), bytes);
      device->Upload(both, factors.data(), 2 * half);
      LayoutConverter converter(device, type);
      converter.Run(2, channels, 121, x, x_last, Layout::kNHWC);
      const bool average = method == Method::kAverage;
      QuantArguments quant{{}, DevicePtr(both), DevicePtr(both) + half, 77, 11, 1};
      PoolArguments arguments{x, y};
      arguments.mask = mask;
      if (average) arguments.quant = &quant;
      Multiplexer::Pooling(device, d)->Forward(arguments);
      d.layout = Layout::kNHWC;
      d.channels = channels;
      arguments.x = x_last;
      arguments.y = y_last;
      Multiplexer::Pooling(device, d)->Forward(arguments);
      const test::Bytes back(device, result);
      converter.Run(2, channels, output * output, y_last, back, Layout::kNCHW);
      EXPECT_EQ(Read(device, back, result), Read(device, y, result))
          << d.name() << (average ? " average" : " max");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodesChannelsLastTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
