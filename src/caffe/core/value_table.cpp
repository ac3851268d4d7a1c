#include "caffe/core/value_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// A row of floats has the same upper bits.
constexpr uint32_t kRows = 1 << 16, kRowFloats = 1 << 16;
// The entries of all rows together; 16 MB, or 32 for elements of 2 bytes.
constexpr size_t kMostEntries = 4 << 20;

// Calls the encoder and checks the codes.
std::vector<uint32_t> Encode(const std::string& name, int bits, const ValueTable::Encoder& encoder,
                             const std::vector<uint32_t>& floats) {
  std::vector<uint32_t> codes(floats.size());
  std::vector<float> values(floats.size());
  for (size_t i = 0; i < floats.size(); ++i) values[i] = std::bit_cast<float>(floats[i]);
  encoder(values.data(), codes.data(), floats.size());
  for (size_t i = 0; i < floats.size(); ++i) {
    CAFFE_CHECK(codes[i] >> bits == 0, "data type '", name, "': from_float gives the code ",
                codes[i], " for ", values[i], ", but the type has ", bits, " bits");
  }
  return codes;
}

// The floats [begin, end] have different codes at their ends.
struct Interval {
  uint32_t begin, end, begin_code, end_code;
};

}  // namespace

struct ValueTable::ScaledTables {
  std::mutex mutex;
  std::map<int, std::unique_ptr<const ValueTable>> by_exponent;
};

ValueTable::ValueTable(const std::string& name, int bits, std::vector<float> values,
                       const Encoder& encoder)
    : bits_(bits), values_(std::move(values)), scaled_(std::make_shared<ScaledTables>()) {
  CAFFE_CHECK(bits >= 2 && bits <= 16 && values_.size() == size_t{1} << bits, "data type '", name,
              "': a table of ", bits, " bits cannot have ", values_.size(), " values");
  FindSteps(name, encoder);
  MakeHostWords(name);
}

const ValueTable& ValueTable::Scaled(int exponent) const {
  if (exponent == 0) return *this;
  const std::lock_guard lock(scaled_->mutex);
  std::unique_ptr<const ValueTable>& table = scaled_->by_exponent[exponent];
  if (!table) {
    const float up = std::ldexp(1.0f, exponent), down = std::ldexp(1.0f, -exponent);
    std::vector<float> values = values_;
    for (float& value : values) value *= up;
    table = std::make_unique<const ValueTable>(
        Concat("scaled by 2^", exponent), bits_, std::move(values),
        [this, down](const float* floats, uint32_t* codes, size_t count) {
          for (size_t i = 0; i < count; ++i) codes[i] = Code(floats[i] * down);
        });
  }
  return *table;
}

float ValueTable::largest() const {
  float largest = 0;
  for (const float value : values_) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

void ValueTable::FindSteps(const std::string& name, const Encoder& encoder) {
  std::vector<uint32_t> floats;
  for (uint32_t row = 0; row < kRows; ++row) {
    floats.push_back(row * kRowFloats);
    floats.push_back(row * kRowFloats + (kRowFloats - 1));
  }
  const std::vector<uint32_t> ends = Encode(name, bits_, encoder, floats);
  std::vector<Interval> open;
  for (size_t i = 0; i < floats.size(); ++i) {
    if (i == 0) {
      steps_.push_back({0, static_cast<uint16_t>(ends[0])});
    } else if (ends[i] != ends[i - 1]) {
      open.push_back({floats[i - 1], floats[i], ends[i - 1], ends[i]});
    }
  }
  // Each code belongs to neighbouring floats of each sign, and a few to NaN.
  const size_t most = 2 * values_.size() + 64;
  while (!open.empty()) {
    CAFFE_CHECK(steps_.size() + open.size() <= most, "data type '", name,
                "': from_float changes its code more than ", most, " times between -infinity and ",
                "infinity, but there are ", values_.size(),
                " codes; it must be monotonic, and depend on nothing but the float");
    std::vector<Interval> wide;
    std::vector<uint32_t> middles;
    for (const Interval& interval : open) {
      if (interval.end - interval.begin == 1) {
        steps_.push_back({interval.end, static_cast<uint16_t>(interval.end_code)});
      } else {
        wide.push_back(interval);
        middles.push_back(interval.begin + (interval.end - interval.begin) / 2);
      }
    }
    const std::vector<uint32_t> codes = Encode(name, bits_, encoder, middles);
    open.clear();
    for (size_t i = 0; i < wide.size(); ++i) {
      const Interval& whole = wide[i];
      if (whole.begin_code != codes[i]) {
        open.push_back({whole.begin, middles[i], whole.begin_code, codes[i]});
      }
      if (codes[i] != whole.end_code) {
        open.push_back({middles[i], whole.end, codes[i], whole.end_code});
      }
    }
  }
  std::sort(steps_.begin(), steps_.end(),
            [](const Step& a, const Step& b) { return a.bits < b.bits; });
  // One float of each row that no step depends on.
  uint32_t random = 12345;
  for (uint32_t row = 0; row < kRows; ++row) {
    random = random * 1664525u + 1013904223u;
    floats[row] = row * kRowFloats + (random >> 16);
  }
  floats.resize(kRows);
  const std::vector<uint32_t> codes = Encode(name, bits_, encoder, floats);
  for (uint32_t row = 0; row < kRows; ++row) {
    const float value = std::bit_cast<float>(floats[row]);
    CAFFE_CHECK(codes[row] == Code(value), "data type '", name, "': from_float gives the code ",
                codes[row], " for ", value, ", but ", Code(value),
                " for the floats next to it; it must be monotonic, and give equal codes for equal ",
                "values");
  }
}

uint32_t ValueTable::CodeIn(const std::vector<Step>& steps, uint32_t bits) {
  const auto next =
      std::upper_bound(steps.begin(), steps.end(), bits,
                       [](uint32_t value, const Step& step) { return value < step.bits; });
  return next == steps.begin() ? 0 : std::prev(next)->code;
}

uint32_t ValueTable::Code(float value) const {
  return CodeIn(steps_, std::bit_cast<uint32_t>(value));
}

void ValueTable::MakeHostWords(const std::string& name) {
  const size_t codes = bits_ <= 8 ? 256 : 65536;
  for (size_t code = 0; code < codes; ++code) {
    host_words_.push_back(std::bit_cast<uint32_t>(Value(static_cast<uint32_t>(code))));
  }
  host_words_.resize(codes + kRows);
  std::map<std::pair<uint32_t, uint32_t>, size_t> alone;  // rows of one entry -> its position
  const auto add = [&](uint32_t low, uint32_t high, uint32_t first) {
    if (codes == 256) {
      host_words_.push_back(first << 16 | low << 8 | high);
    } else {
      host_words_.push_back(low << 16 | high);
      host_words_.push_back(first);
    }
  };
  size_t step = 0;  // the last one at or before the present float
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint32_t begin = row * kRowFloats;
    while (step + 1 < steps_.size() && steps_[step + 1].bits <= begin) ++step;
    const size_t first = step;
    while (step + 1 < steps_.size() && steps_[step + 1].bits - begin < kRowFloats) ++step;
    // The widest entries with at most one change of code inside.
    uint32_t shift = 16;
    for (size_t s = first + 1; s <= step; ++s) {
      for (size_t other = s + 1; other <= step; ++other) {
        const uint32_t a = steps_[s].bits - begin, b = steps_[other].bits - begin;
        while (a >> shift == b >> shift && (a & ((1u << shift) - 1)) != 0) --shift;
        break;  // steps are in order: only neighbours can share an entry
      }
    }
    const size_t position = host_words_.size();
    if (first == step) {
      const auto [found, added] = alone.insert({{steps_[first].code, 0}, position});
      host_words_[codes + row] = static_cast<uint32_t>(found->second << 5 | 16);
      if (added) add(0, steps_[first].code, 0);
      continue;
    }
    host_words_[codes + row] = static_cast<uint32_t>(position << 5 | shift);
    size_t at = first;
    for (uint32_t entry = 0; entry < kRowFloats >> shift; ++entry) {
      const uint32_t start = entry << shift, end = start + (1u << shift);
      while (at < step && steps_[at + 1].bits - begin <= start) ++at;
      const bool changes = at < step && steps_[at + 1].bits - begin < end;
      const uint32_t low = steps_[at].code;
      if (changes) {
        add(low, steps_[at + 1].code, (steps_[at + 1].bits - begin) - start);
      } else {
        add(0, low, 0);
      }
    }
    CAFFE_CHECK(host_words_.size() < 2 * kMostEntries, "data type '", name,
                "': its codes change so often that a table of them is too large");
  }
}

ValueTable::Encoder ValueTable::Nearest(const std::string& name, const std::vector<float>& values) {
  struct Entry {
    double value;
    uint32_t code;
  };
  std::vector<Entry> sorted;  // finite ones, without -0
  uint32_t nan = 0, zero = 0, negative_zero = 0;
  bool has_nan = false, has_zero = false, has_negative_zero = false;
  std::vector<Entry> infinities;
  for (uint32_t code = 0; code < values.size(); ++code) {
    const float value = values[code];
    if (std::isnan(value)) {
      if (!has_nan) nan = code;
      has_nan = true;
    } else if (std::isinf(value)) {
      infinities.push_back({value, code});
    } else if (value == 0 && std::signbit(value)) {
      if (!has_negative_zero) negative_zero = code;
      has_negative_zero = true;
    } else {
      if (value == 0 && !has_zero) zero = code;
      has_zero |= value == 0;
      sorted.push_back({value, code});
    }
  }
  CAFFE_CHECK(!sorted.empty(), "data type '", name, "': no code has a finite value");
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry& a, const Entry& b) { return a.value < b.value; });
  sorted.erase(std::unique(sorted.begin(), sorted.end(),
                           [](const Entry& a, const Entry& b) { return a.value == b.value; }),
               sorted.end());
  // Infinity stands where the next value would be.
  for (const Entry& infinity : infinities) {
    const bool above = infinity.value > 0;
    const size_t n = sorted.size();
    const double distance = n < 2   ? 0
                            : above ? sorted[n - 1].value - sorted[n - 2].value
                                    : sorted[1].value - sorted[0].value;
    if (above) {
      sorted.push_back({sorted.back().value + distance, infinity.code});
    } else {
      sorted.insert(sorted.begin(), {sorted.front().value - distance, infinity.code});
    }
  }
  if (!has_nan) nan = zero;
  return [=](const float* floats, uint32_t* codes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const double value = floats[i];
      if (std::isnan(value)) {
        codes[i] = nan;
        continue;
      }
      auto above = std::lower_bound(sorted.begin(), sorted.end(), value,
                                    [](const Entry& e, double v) { return e.value < v; });
      const Entry* found = above == sorted.end() ? &sorted.back() : &*above;
      if (above != sorted.end() && above != sorted.begin() && above->value != value) {
        const Entry& below = *std::prev(above);
        const double down = value - below.value, up = above->value - value;
        if (down < up || (down == up && below.code % 2 == 0)) found = &below;
      }
      const bool negative = has_negative_zero && found->value == 0 && std::signbit(floats[i]);
      codes[i] = negative ? negative_zero : found->code;
    }
  };
}

}  // namespace caffe
