#include "caffe/device/register_type.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/type_registry.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "custom_type.hpp"
#include "type_evaluator.hpp"

namespace caffe {
namespace {

// The values that a table is made from; the program cache keeps them.
struct Values {
  std::vector<float> values;
  std::vector<ValueTable::Step> steps;
};

void CheckBits(const std::string& name, int bits) {
  CAFFE_CHECK(bits >= 2 && bits <= kMostTypeBits, "data type '", name, "': a type has 2 to ",
              kMostTypeBits, " bits, not ", bits);
}

// An encoder of known steps.
ValueTable::Encoder EncoderOf(std::vector<ValueTable::Step> steps) {
  return [steps = std::move(steps)](const float* values, uint32_t* codes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &values[i], sizeof bits);
      codes[i] = ValueTable::CodeIn(steps, bits);
    }
  };
}

std::string Pack(const Values& values) {
  std::string text;
  for (const float value : values.values) text.append(reinterpret_cast<const char*>(&value), 4);
  for (const ValueTable::Step& step : values.steps) {
    text.append(reinterpret_cast<const char*>(&step.bits), 4);
    text.append(reinterpret_cast<const char*>(&step.code), 2);
  }
  return text;
}

std::optional<Values> Unpack(const std::string& text, int bits) {
  Values values;
  const size_t floats = size_t{4} << bits;
  if (text.size() < floats + 6 || (text.size() - floats) % 6 != 0) return std::nullopt;
  values.values.resize(size_t{1} << bits);
  std::memcpy(values.values.data(), text.data(), floats);
  for (size_t at = floats; at < text.size(); at += 6) {
    ValueTable::Step step{};
    std::memcpy(&step.bits, &text[at], 4);
    std::memcpy(&step.code, &text[at + 4], 2);
    values.steps.push_back(step);
  }
  return values;
}

// The values and steps of two texts, from the program cache if they are there.
std::shared_ptr<const ValueTable> Evaluate(const TypeInfo& info) {
  std::set<std::string> included;
  ProgramCache& cache = Runtime::Get().program_cache();
  TypeInfo nameless = info;
  nameless.name = nameless.word = "type";
  const std::string key =
      CacheKey({CustomFunctions(nameless, &included), Concat("values of ", info.bits, " bits"),
                "cpu", "value table 3"});
  if (const auto found = cache.Find(key)) {
    if (const auto known = Unpack(found->binary, info.bits)) {
      return std::make_shared<ValueTable>(info.name, info.bits, known->values,
                                          EncoderOf(known->steps));
    }
  }
  const auto functions = CompileType(info);
  std::vector<uint32_t> codes(size_t{1} << info.bits);
  for (uint32_t code = 0; code < codes.size(); ++code) codes[code] = code;
  std::vector<float> values(codes.size());
  functions->Values(codes.data(), values.data(), codes.size());
  auto table = std::make_shared<ValueTable>(info.name, info.bits, values,
                                            [&](const float* floats, uint32_t* to, size_t count) {
                                              functions->Codes(floats, to, count);
                                            });
  ProgramCache::Entry entry;
  entry.binary = Pack({table->values(), table->steps()});
  cache.Store(key, "cpu", "type " + info.name, entry);
  return table;
}

bool SameTable(const ValueTable& a, const ValueTable& b) {
  return Pack({a.values(), a.steps()}) == Pack({b.values(), b.steps()});
}

// Floats of every size, with infinities, in the order of their values, and NaN at the end.
std::vector<float> Probes() {
  std::vector<float> probes;
  uint32_t random = 12345;
  for (uint32_t row = 0; row <= 0x7f80; ++row) {
    random = random * 1664525u + 1013904223u;
    for (const uint32_t low : {0u, random >> 17, random >> 16, 0xffffu}) {
      const float size = std::bit_cast<float>(row << 16 | (row == 0x7f80 ? 0 : low));
      probes.insert(probes.end(), {-size, size});
    }
  }
  std::sort(probes.begin(), probes.end());
  probes.push_back(std::numeric_limits<float>::quiet_NaN());
  return probes;
}

// A number that a code stands for is rounded to itself, up to a relative error of `tolerance`.
// `back` are the values of the codes that from_float gives for `values`. NaN stands for codes that
// are not used.
void CheckRoundTrips(const std::string& name, const std::vector<uint32_t>& codes,
                     const std::vector<float>& values, const std::vector<uint32_t>& codes_back,
                     const std::vector<float>& back, float tolerance) {
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool same = std::isnan(values[i]) || values[i] == back[i] ||
                      std::abs(back[i] - values[i]) <= tolerance * std::abs(values[i]);
    CAFFE_CHECK(
        same, "data type '", name, "': to_float of the code ", codes[i], " is ", values[i],
        ", for which from_float ", "gives the code ", codes_back[i], ", which is ", back[i],
        "; each value must come back. ",
        "Does from_float return a value on each path? to_float may give NaN for codes that are ",
        "not used");
  }
}

// New memory has the code 0 and must read as what 0 is rounded to; of a type without 0 that is
// another number.
void CheckZero(const std::string& name, float of_code_0, uint32_t code_of_0, float back) {
  CAFFE_CHECK(of_code_0 == back, "data type '", name, "': to_float of the code 0 is ", of_code_0,
              ", but new memory has this code and must read as zeros, and from_float of 0 gives ",
              "the code ", code_of_0, ", which is ", back, "; give 0 the code 0, for example by ",
              "exchanging the highest bit of the code");
}

// The values that floats are rounded to grow with the floats. A table has each code once for each
// sign.
void CheckMonotony(const std::string& name, const ValueTable& table) {
  constexpr uint32_t kInfinity = 0x7f800000, kSign = 0x80000000;
  float last[2] = {NAN, table.Value(table.Code(-0.0f))};
  for (const ValueTable::Step& step : table.steps()) {
    const uint32_t sign = step.bits & kSign;
    const float value = table.Value(step.code), rounded = std::bit_cast<float>(step.bits);
    if ((step.bits ^ sign) > kInfinity || std::isnan(value)) continue;
    float& before = last[sign != 0];
    CAFFE_CHECK(std::isnan(before) || (sign ? value <= before : value >= before), "data type '",
                name, "': from_float rounds ", rounded, " to ", value, ", but floats ",
                sign ? "above it to " : "below it to ", before, "; it must be monotonic");
    before = value;
  }
  const float above = table.Value(table.Code(0.0f)), below = table.Value(table.Code(-0.0f));
  CAFFE_CHECK(std::isnan(above) || std::isnan(below) || below <= above, "data type '", name,
              "': from_float rounds -0 to ", below, " and 0 to ", above, "; it must be monotonic");
}

void CheckRoundTrips(const std::string& name, const ValueTable& table) {
  std::vector<uint32_t> codes, codes_back;
  std::vector<float> back;
  for (const float value : table.values()) {
    codes.push_back(static_cast<uint32_t>(codes.size()));
    codes_back.push_back(table.Code(value));
    back.push_back(table.Value(codes_back.back()));
  }
  CheckRoundTrips(name, codes, table.values(), codes_back, back, 0);
}

void CheckTable(const std::string& name, const ValueTable& table) {
  CheckMonotony(name, table);
  CheckRoundTrips(name, table);
  CheckZero(name, table.Value(0), table.Code(0), table.Value(table.Code(0)));
}

// Codes over the whole range of a type without a table, with both ends.
std::vector<uint32_t> SomeCodes(int bits) {
  constexpr uint64_t kSamples = 1 << 16;
  const uint64_t all = uint64_t{1} << bits, step = std::max<uint64_t>(1, all / kSamples - 1);
  std::vector<uint32_t> codes;
  for (uint64_t code = 0; code < all; code += step) codes.push_back(static_cast<uint32_t>(code));
  for (uint64_t code = 0; code < 64; ++code) {
    codes.push_back(static_cast<uint32_t>(code));
    codes.push_back(static_cast<uint32_t>(all / 2 - 1 - code));
    codes.push_back(static_cast<uint32_t>(all / 2 + code));
    codes.push_back(static_cast<uint32_t>(all - 1 - code));
  }
  return codes;
}

// Refuses what a table would refuse, tested by samples: codes of more bits, rounding that is not
// monotonic, and values that do not come back.
void CheckFunctions(const TypeInfo& info, const TypeFunctions& functions) {
  const std::vector<float> probes = Probes();
  std::vector<uint32_t> codes(probes.size());
  std::vector<float> values(probes.size());
  functions.Codes(probes.data(), codes.data(), probes.size());
  functions.Values(codes.data(), values.data(), probes.size());
  size_t last = 0;  // of those that are not NaN
  for (size_t i = 0; i < probes.size(); ++i) {
    CAFFE_CHECK((codes[i] & ~(0xffffffffu >> (32 - info.bits))) == 0, "data type '", info.name,
                "': from_float gives the code ", codes[i], " for ", probes[i],
                ", but the type has ", info.bits, " bits");
    if (std::isnan(probes[i]) || std::isnan(values[i])) continue;
    CAFFE_CHECK(std::isnan(values[last]) || values[last] <= values[i], "data type '", info.name,
                "': from_float rounds ", probes[last], " to ", values[last], " and ", probes[i],
                " to ", values[i], "; it must be monotonic");
    last = i;
  }
  const std::vector<uint32_t> some = SomeCodes(info.bits);
  codes.resize(some.size());
  values.resize(some.size());
  std::vector<float> back(some.size());
  functions.Values(some.data(), values.data(), some.size());
  functions.Codes(values.data(), codes.data(), some.size());
  functions.Values(codes.data(), back.data(), some.size());
  // Both functions compute in float, which has fewer bits than some of these types.
  CheckRoundTrips(info.name, some, values, codes, back, 0x1p-22f);
  const uint32_t code_0 = 0;
  const float zero = 0;
  float of_code_0 = 0, back_0 = 0;
  uint32_t code_of_0 = 0;
  functions.Values(&code_0, &of_code_0, 1);
  functions.Codes(&zero, &code_of_0, 1);
  functions.Values(&code_of_0, &back_0, 1);
  CheckZero(info.name, of_code_0, code_of_0, back_0);
}

// A type of this name that is equal; throws if it is another one.
std::optional<DataType> Registered(const TypeInfo& info, const ValueTable* table) {
  const std::optional<DataType> found = FindDataType(info.name);
  if (!found) return std::nullopt;
  const TypeInfo& known = found->info();
  const bool same = found->is_custom() && known.bits == info.bits &&
                    known.to_float == info.to_float && known.from_float == info.from_float &&
                    known.scaled == info.scaled && known.packed == info.packed &&
                    known.simulates_double == info.simulates_double &&
                    (!table || SameTable(*table, TableOf(*found)));
  CAFFE_CHECK(same, "data type '", info.name, "' exists and is another type; types cannot be ",
              "changed: choose another name");
  return found;
}

// One registration at a time, so that an equal one finds the first.
DataType Add(TypeInfo info, std::shared_ptr<const ValueTable> table) {
  info.make_table = [table] { return std::make_unique<ValueTable>(*table); };
  return AddDataType(std::move(info));
}

std::mutex& Registering() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

TypeInfo Described(const std::string& name, int bits, const TypeOptions& options) {
  CAFFE_CHECK(!options.scaled || bits <= kMostTableBits, "data type '", name,
              "': a type with a scale for each blob has at most ", kMostTableBits, " bits, not ",
              bits, "; leave out scaled");
  CAFFE_CHECK(!options.packed || bits <= 4, "data type '", name,
              "': two elements in a byte have at most 4 bits each, not ", bits,
              "; leave out packed");
  TypeInfo info;
  info.scaled = options.scaled;
  info.packed = options.packed;
  info.simulates_double = options.simulate_double;
  info.name = name;
  info.word = "custom_" + name;
  info.kind = TypeKind::kCustom;
  info.bits = bits;
  return info;
}

}  // namespace

DataType RegisterType(const std::string& name, int bits, const std::string& to_float,
                      const std::string& from_float, const TypeOptions& options) {
  TypeInfo info = Described(name, bits, options);
  CheckTypeName(name);
  CheckBits(name, bits);
  CAFFE_CHECK(!to_float.empty() && !from_float.empty(), "data type '", name,
              "': needs two texts, to_float and from_float");
  info.to_float = to_float;
  info.from_float = from_float;
  const std::lock_guard lock(Registering());
  if (const auto known = Registered(info, nullptr)) return *known;
  if (bits <= kMostTableBits) {
    const auto table = Evaluate(info);
    CheckTable(name, *table);
    return Add(info, table);
  }
  std::shared_ptr<const TypeFunctions> functions = CompileType(info);
  CheckFunctions(info, *functions);
  return AddDataType(info, functions);
}

DataType RegisterType(const std::string& name, int bits,
                      const std::function<float(uint32_t)>& to_float,
                      const std::function<uint32_t(float)>& from_float,
                      const TypeOptions& options) {
  const TypeInfo info = Described(name, bits, options);
  CheckTypeName(name);
  CheckBits(name, bits);
  CAFFE_CHECK(to_float, "data type '", name, "': needs a function to_float");
  CAFFE_CHECK(bits <= kMostTableBits, "data type '", name,
              "': functions are called for every code, ",
              "so that a type of functions has at most ", kMostTableBits, " bits, not ", bits,
              "; give to_float and from_float as texts in C, which devices compile");
  std::vector<float> values;
  for (uint32_t code = 0; code < 1u << bits; ++code) values.push_back(to_float(code));
  const auto encoder = [&](const float* floats, uint32_t* codes, size_t count) {
    for (size_t i = 0; i < count; ++i) codes[i] = from_float(floats[i]);
  };
  const auto table = std::make_shared<const ValueTable>(
      name, bits, values, from_float ? encoder : ValueTable::Nearest(name, values));
  const std::lock_guard lock(Registering());
  if (const auto known = Registered(info, table.get())) return *known;
  CheckTable(name, *table);
  return Add(info, table);
}

}  // namespace caffe
