#include "caffe/library/native/byte_product.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const ByteSteps byte_steps_v2, byte_steps_v3, byte_steps_v4, byte_steps_vnni;
extern const ByteSteps byte_steps_amx, byte_steps_ifma;
#else
extern const ByteSteps byte_steps_neon;
#endif

namespace {

#if defined(__x86_64__)

// Whether the processor has AMX for bytes and the kernel lets this process use it.
bool HasMatrixUnits() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    constexpr unsigned kTiles = 1u << 24, kBytes = 1u << 25;
    if (!(d & kTiles) || !(d & kBytes)) return false;
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

bool MultipliesBytes() { return HostLevel() == "v4" && __builtin_cpu_supports("avx512vnni") != 0; }

// Whether 52 bits are multiplied, too, for requantization.
bool MultipliesMore() { return MultipliesBytes() && __builtin_cpu_supports("avx512ifma") != 0; }

#endif

}  // namespace

std::vector<const ByteSteps*> AllByteSteps() {
#if defined(__x86_64__)
  std::vector<const ByteSteps*> all{&byte_steps_v2};
  if (HostLevel() != "v2") all.push_back(&byte_steps_v3);
  if (HostLevel() == "v4") all.push_back(&byte_steps_v4);
  if (MultipliesBytes()) all.push_back(&byte_steps_vnni);
  if (MultipliesMore()) all.push_back(&byte_steps_ifma);
  if (MultipliesMore() && HasMatrixUnits()) all.push_back(&byte_steps_amx);
  return all;
#else
  return {&byte_steps_neon};
#endif
}

const ByteSteps& HostByteSteps() {
#if defined(__x86_64__)
  const std::string& level = HostLevel();
  if (level == "v2") return byte_steps_v2;
  if (level == "v3") return byte_steps_v3;
  if (!MultipliesMore()) return MultipliesBytes() ? byte_steps_vnni : byte_steps_v4;
  return HasMatrixUnits() ? byte_steps_amx : byte_steps_ifma;
#else
  return byte_steps_neon;
#endif
}

const ByteSteps& StepsForDepth(int64_t depth) {
  return depth > kNarrowDepth ? *AllByteSteps().front() : HostByteSteps();
}

bool HasFastByteSteps() {
#if defined(__x86_64__)
  return HostLevel() != "v2";
#else
  return false;
#endif
}

bool ReadsRowsOf(const ByteSteps& steps, int64_t depth) {
  return depth % kByteDepth == 0 || (depth % 4 == 0 && (!steps.matrix || depth < kByteDepth));
}

int64_t UsedDepth(const ByteSteps& steps, int64_t k) {
  return RoundUp(k, steps.matrix && k > kByteDepth ? kByteDepth : 4);
}

PackedBytes::PackedBytes(int64_t rows, int64_t k, int64_t groups, CodeForm form)
    : rows_(rows),
      k_(k),
      groups_(groups),
      form_(form),
      depth_(RoundUp(
          k, form == CodeForm::kBytes || form == CodeForm::kWordBytes ? kByteDepth : kPairDepth)),
      header_(form == CodeForm::kWords       ? WordHeaderBytes(depth_)
              : form == CodeForm::kWordParts ? WordPartsHeaderBytes(depth_)
                                             : 0) {
  group_bytes_ = RoundUp(rows / groups, kByteChannels) * weight_row_bytes();
}

void PackedBytes::Pack(const void* codes, const Order& order, char* to) const {
  std::fill(to, to + bytes(), 0);
  if (form_ == CodeForm::kWords) return PackWords(static_cast<const uint16_t*>(codes), order, to);
  if (form_ == CodeForm::kWordParts) {
    return PackParts(static_cast<const uint16_t*>(codes), order, to);
  }
  const int64_t rows = rows_ / groups_;
  const int64_t source = k_ - std::count(order.begin(), order.end(), kNone);
  for (int64_t r = 0; r < rows_; ++r) {
    const int64_t row = r % rows;
    const int64_t plane = kByteChannels * depth_;
    char* block = to + r / rows * group_bytes_ + row / kByteChannels * weight_bytes() * plane;
    for (int64_t i = 0; i < k_; ++i) {
      if (order[i] == kNone) continue;
      const int64_t from = r * source + order[i];
      const int64_t at = (i / 4 * kByteChannels + row % kByteChannels) * 4 + i % 4;
      if (form_ == CodeForm::kBytes) {
        block[at] = static_cast<char>(static_cast<const uint8_t*>(codes)[from] - 128);
      } else {
        const int weight = static_cast<const uint16_t*>(codes)[from] - 32768;
        block[at] = static_cast<char>(weight & 255);
        block[plane + at] = static_cast<char>(weight >> 8);
      }
    }
  }
}

void PackedBytes::PackWords(const uint16_t* codes, const Order& order, char* to) const {
  // A product of a code - 32768 and a weight is at most 2^15 times the weight.
  constexpr int64_t kMostSum = 65535;
  const int64_t rows = rows_ / groups_, block_bytes = kByteChannels * weight_row_bytes();
  for (int64_t r = 0; r < rows_; ++r) {
    const int64_t row = r % rows, lane = row % kByteChannels;
    char* block = to + r / rows * group_bytes_ + row / kByteChannels * block_bytes;
    WordHeader* header = reinterpret_cast<WordHeader*>(block);
    int16_t* words = reinterpret_cast<int16_t*>(block + header_);
    const auto weight = [&](int64_t i) -> int16_t& {
      return words[(i / 2 * kByteChannels + lane) * 2 + i % 2];
    };
    for (int64_t i = 0; i < k_; ++i) {
      weight(i) = static_cast<int16_t>(codes[r * k_ + order[i]] - 32768);
      header->sums[lane] += weight(i);
    }
    for (int64_t begin = 0; begin < depth_; begin += kRunDepth) {
      unsigned char& run = header->runs[begin / kRunDepth];
      if (lane == 0) run = 4;
      int64_t sums[kRunDepth / 2] = {};
      for (int64_t i = begin; i < std::min(begin + kRunDepth, depth_); ++i) {
        sums[(i - begin) / 2] += std::abs(weight(i));
      }
      // Whether all sums of `pairs` pairs fit.
      const auto fit = [&sums](int pairs) {
        for (int i = 0; i < kRunDepth / 2; i += pairs) {
          if (std::accumulate(sums + i, sums + i + pairs, int64_t{0}) > kMostSum) return false;
        }
        return true;
      };
      while (run > 1 && !fit(run)) run /= 2;
    }
  }
}

namespace {

// A weight is 256 upper + lower.
int Upper(int weight) { return std::min((weight + 128) >> 8, 127); }
int Lower(int weight) { return weight - 256 * Upper(weight); }

// The largest slice in which the magnitudes of all parts of the weights of a row have a sum below
// 2^16 - 1. `chunks` are the sums of kPairDepth products.
int64_t SliceOf(const std::vector<int>& chunks, int64_t per_row) {
  for (int64_t slices = 1;; ++slices) {
    const int64_t slice = (per_row + slices - 1) / slices;
    if (slice * kPairDepth <= kLeastSlice) return kLeastSlice;
    bool fits = true;
    for (size_t row = 0; row < chunks.size() && fits; row += per_row) {
      for (int64_t begin = 0; begin < per_row; begin += slice) {
        const int* from = chunks.data() + row;
        const int* end = from + std::min(begin + slice, per_row);
        if (std::accumulate(from + begin, end, 0) >= 65535) fits = false;
      }
    }
    if (fits) return slice * kPairDepth;
  }
}

}  // namespace

void PackedBytes::PackParts(const uint16_t* codes, const Order& order, char* to) const {
  const int64_t rows = rows_ / groups_, block_bytes = kByteChannels * weight_row_bytes();
  const int64_t chunks = depth_ / kPairDepth;
  const int64_t source = k_ - std::count(order.begin(), order.end(), kNone);
  for (int64_t group = 0; group < groups_; ++group) {
    const auto weight = [&](int64_t row, int64_t i) {
      return order[i] == kNone ? 0 : codes[(group * rows + row) * source + order[i]] - 32768;
    };
    std::vector<int> parts(rows * chunks);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < k_; ++i) {
        const int w = weight(r, i);
        parts[r * chunks + i / kPairDepth] += std::abs(Upper(w)) + std::abs(Lower(w));
      }
    }
    const int64_t slice = SliceOf(parts, chunks);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t lane = r % kByteChannels;
      char* block = to + group * group_bytes_ + r / kByteChannels * block_bytes;
      WordPartsHeader* header = reinterpret_cast<WordPartsHeader*>(block);
      header->slice = slice;
      std::vector<int> uppers(Ceil(depth_, slice));
      for (int64_t i = 0; i < k_; ++i) {
        const int w = weight(r, i);
        header->sums[lane] += w;
        uppers[i / slice] += Upper(w);
        char* four = block + header_ + i / 4 * 3 * 64;
        reinterpret_cast<int16_t*>(four + i % 4 / 2 * 64)[2 * lane + i % 2] =
            static_cast<int16_t>(w);
        four[128 + 4 * lane + i % 4] = static_cast<char>(Upper(w));
      }
      // A code - 32768 is 256 times its upper byte, less 32640, and at most 128 more or less.
      for (size_t s = 0; s < uppers.size(); ++s) header->starts[s][lane] = (-255 * uppers[s]) >> 1;
    }
  }
}

PackedWindows::PackedWindows(int64_t channels, int64_t taps)
    : channels_(channels), taps_(taps), tap_stride_(RoundUp(taps, kByteTaps)) {}

int64_t PackedWindows::bytes() const { return RoundUp(channels_, kByteLanes) * tap_stride_; }

void PackedWindows::Pack(const uint8_t* codes, char* to) const {
  std::fill(to, to + bytes(), 0);
  for (int64_t channel = 0; channel < channels_; ++channel) {
    const int64_t c = channel % kByteLanes, first = channel - c;
    // The order of the lanes in which 4 taps are interleaved.
    const int64_t lane = c % 16 / 4 * 64 + (c / 16 * 4 + c % 4) * 4;
    for (int64_t t = 0; t < taps_; ++t) {
      const int code = codes[channel * taps_ + t] - 128;
      to[first * tap_stride_ + t / 4 * 4 * kByteLanes + lane + t % 4] = static_cast<char>(code);
    }
  }
}

void PackedWindows::Pack(const uint16_t* codes, char* to) const {
  std::fill(to, to + word_bytes(), 0);
  int16_t* words = reinterpret_cast<int16_t*>(to);
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t t = 0; t < taps_; ++t) {
      words[t * channels_ + c] = static_cast<int16_t>(codes[c * taps_ + t] - 32768);
    }
  }
}

ByteOutput MakeByteOutput(const Epilogue& epilogue, const QuantArguments& arguments,
                          int64_t channel, int64_t channels, DataType type) {
  const int most = type == kQuant16 ? 65535 : 255;
  const auto ints = [channel](DevicePtr p) {
    return p ? reinterpret_cast<const int*>(p.address()) + channel : nullptr;
  };
  ByteOutput o{};
  o.channels = channels;
  if (!arguments.bias) {
    o.result = ByteResult::kSums;
    return o;
  }
  o.bias = reinterpret_cast<const long*>(arguments.bias.address()) + channel;
  o.multiplier = ints(arguments.multiplier);
  o.shift = ints(arguments.shift);
  o.negative_multiplier = ints(arguments.negative_multiplier);
  o.negative_shift = ints(arguments.negative_shift);
  o.zero_y = arguments.zero_y;
  if (type == kFloat) o.result = ByteResult::kValues;
  const CodeBounds bounds(epilogue, arguments.scale_y);
  o.lowest = std::clamp(arguments.zero_y + bounds.low, 0, most);
  o.highest = std::clamp(arguments.zero_y + bounds.high, 0, most);
  return o;
}

}  // namespace caffe
