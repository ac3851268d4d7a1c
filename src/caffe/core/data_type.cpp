#include "caffe/core/data_type.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstring>
#include <memory>
#include <mutex>

#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/type_registry.hpp"
#include "caffe/core/value_table.hpp"
#include "ready_types.hpp"

namespace caffe {
namespace {

constexpr int kCustomProto = 9;  // CAFFE_CUSTOM in caffe.proto

TypeInfo Completed(TypeInfo info) {
  info.bytes = info.bits <= 8 ? 1 : info.bits <= 16 ? 2 : 4;
  info.word = "custom_" + info.name;
  info.proto = kCustomProto;
  info.accumulator = info.scale = "float";
  return info;
}

// All types, by their ids. A type is never changed or removed, so that readers need no lock.
class Table {
 public:
  Table() {
    for (TypeInfo& info : std::vector<TypeInfo>{
             {"float", "f32", TypeKind::kFloat, 0, 4, 0, 0, "float", "float"},
             {"half", "f16", TypeKind::kFloat, 1, 2, 0, 0, "float", "float"},
             {"double", "f64", TypeKind::kFloat, 2, 8, 0, 0, "double", "double"},
             {"quant8", "q8", TypeKind::kQuantized, 3, 1, 0, 255, "i32", "Requant"},
             {"quant16", "q16", TypeKind::kQuantized, 4, 2, 0, 65535, "i64", "Requant"},
             {"bfloat16", "bf16", TypeKind::kFloat, 8, 2, 0, 0, "float", "float"},
         }) {
      Add(info, nullptr);
    }
    for (TypeInfo& info : ReadyTypes()) Add(Completed(std::move(info)), nullptr);
  }
  int size() const { return size_.load(std::memory_order_acquire); }
  const TypeInfo& operator[](int id) const { return *infos_[id]; }
  const ValueTable& Values(int id) {
    std::call_once(made_[id], [&] { values_[id] = infos_[id]->make_table(); });
    return *values_[id];
  }
  const TypeFunctions& Functions(int id) const { return *functions_[id]; }
  // Gives the id.
  int Add(TypeInfo info, std::shared_ptr<const TypeFunctions> functions) {
    const std::lock_guard lock(mutex_);
    const int id = size_.load(std::memory_order_relaxed);
    for (int other = 0; other < id; ++other) {
      CAFFE_CHECK(infos_[other]->name != info.name, "there is a data type '", info.name,
                  "' already");
    }
    CAFFE_CHECK(id < kMost, "cannot add data type '", info.name, "': there are ", kMost,
                " types already");
    infos_[id] = std::make_unique<const TypeInfo>(std::move(info));
    functions_[id] = std::move(functions);
    size_.store(id + 1, std::memory_order_release);
    return id;
  }

 private:
  static constexpr int kMost = 256;
  std::array<std::unique_ptr<const TypeInfo>, kMost> infos_;
  std::array<std::once_flag, kMost> made_;
  std::array<std::unique_ptr<const ValueTable>, kMost> values_;
  std::array<std::shared_ptr<const TypeFunctions>, kMost> functions_;  // of types without a table
  std::atomic<int> size_{0};
  std::mutex mutex_;
};

Table& Infos() {
  static auto* const table = new Table;
  return *table;
}

std::string KnownNames() {
  std::string names;
  for (int id = 0; id < Infos().size(); ++id) names += (id ? ", " : "") + Infos()[id].name;
  return names;
}

template <class From, class To> void Convert(const void* source, void* target, size_t count) {
  const From* from = static_cast<const From*>(source);
  To* to = static_cast<To*>(target);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

// Narrow types are converted through float. A plain conversion from double would round twice, so
// the double is first rounded to odd, which keeps the second rounding correct.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || nearest != nearest) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool away = (value > 0) == (static_cast<double>(nearest) > value);
  if (away && (bits & 0x7fffffffu) != 0) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// From a type of a user to double, or from double to such a type.
void ConvertFromCustom(DataType type, const void* source, double* target, size_t count) {
  const TypeInfo& info = type.info();
  if (HasFunctions(type)) {
    std::vector<float> values(count);
    FunctionsOf(type).Values(static_cast<const uint32_t*>(source), values.data(), count);
    std::copy(values.begin(), values.end(), target);
    return;
  }
  const ValueTable& table = TableOf(type);
  const auto* bytes = static_cast<const uint8_t*>(source);
  if (info.packed) {
    for (size_t i = 0; i < count; ++i) target[i] = table.Value(bytes[i / 2] >> i % 2 * 4 & 15);
    return;
  }
  const auto* words = static_cast<const uint16_t*>(source);
  for (size_t i = 0; i < count; ++i) {
    target[i] = table.Value(info.bytes == 1 ? bytes[i] : words[i]);
  }
}

void ConvertToCustom(DataType type, const double* source, void* target, size_t count) {
  const TypeInfo& info = type.info();
  if (HasFunctions(type)) {
    std::vector<float> values(count);
    std::transform(source, source + count, values.begin(), RoundToOdd);
    FunctionsOf(type).Codes(values.data(), static_cast<uint32_t*>(target), count);
    return;
  }
  const ValueTable& table = TableOf(type);
  auto* bytes = static_cast<uint8_t*>(target);
  if (info.packed) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t code = table.Code(RoundToOdd(source[i])) << i % 2 * 4;
      bytes[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? code : bytes[i / 2] | code);
    }
    return;
  }
  auto* words = static_cast<uint16_t*>(target);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t code = table.Code(RoundToOdd(source[i]));
    if (info.bytes == 1) {
      bytes[i] = static_cast<uint8_t>(code);
    } else {
      words[i] = static_cast<uint16_t>(code);
    }
  }
}

template <class To> void ConvertFromDouble(const void* source, void* target, size_t count) {
  const double* from = static_cast<const double*>(source);
  To* to = static_cast<To*>(target);
  for (size_t i = 0; i < count; ++i) to[i] = To(RoundToOdd(from[i]));
}

template <class From>
bool ConvertFrom(DataType to, const void* source, void* target, size_t count) {
  if (to == kFloat) return Convert<From, float>(source, target, count), true;
  if (to == kHalf) return Convert<From, half>(source, target, count), true;
  if (to == kDouble) return Convert<From, double>(source, target, count), true;
  if (to == kBfloat16) return Convert<From, bfloat16>(source, target, count), true;
  return false;
}

}  // namespace

const TypeInfo& DataType::info() const {
  const Table& table = Infos();
  CAFFE_CHECK(id_ >= 0 && id_ < table.size(), "unknown data type id ", id_);
  return table[id_];
}

const std::vector<DataType>& BuiltInTypes() {
  static const auto* const types =
      new std::vector<DataType>{kFloat, kHalf, kDouble, kQuant8, kQuant16, kBfloat16};
  return *types;
}

const std::vector<DataType>& FloatTypes() {
  static const auto* const types = new std::vector<DataType>{kFloat, kHalf, kBfloat16, kDouble};
  return *types;
}

std::optional<DataType> FindDataType(std::string_view name) {
  for (int id = 0; id < Infos().size(); ++id) {
    if (Infos()[id].name == name) return DataType(id);
  }
  return std::nullopt;
}

DataType DataTypeByName(std::string_view name) {
  if (const auto type = FindDataType(name)) return *type;
  CAFFE_THROW("unknown data type '", name, "'; known are ", KnownNames(),
              "; a type of your own is registered before it is used: caffe.register_type in ",
              "Python, RegisterType in C++");
}

DataType DataTypeByProto(int number) {
  for (const DataType type : BuiltInTypes()) {
    if (type.info().proto == number) return type;
  }
  CAFFE_THROW("data type number ", number, " of caffe.proto cannot be used; use one of ",
              KnownNames());
}

void CheckTypeName(const std::string& name) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  CAFFE_CHECK(!name.empty() && std::all_of(name.begin(), name.end(), is_word) &&
                  !std::isdigit(static_cast<unsigned char>(name[0])),
              "a data type cannot be named '", name,
              "': a name has letters, digits and _ and does not begin with a digit");
  CAFFE_CHECK(name != "int8" && name != "int16", "a data type cannot be named '", name,
              "': commands and caffe.quantize call ", name == "int8" ? "quant8" : "quant16", " so");
}

DataType AddDataType(TypeInfo info, std::shared_ptr<const TypeFunctions> functions) {
  CheckTypeName(info.name);
  CAFFE_CHECK(info.kind == TypeKind::kCustom, "data type '", info.name,
              "': types that are added are of kind kCustom");
  CAFFE_CHECK(info.bits >= 2 && info.bits <= kMostTypeBits, "data type '", info.name,
              "': a type has 2 to ", kMostTypeBits, " bits, not ", info.bits);
  CAFFE_CHECK(info.to_float.empty() == info.from_float.empty(), "data type '", info.name,
              "': needs both texts or none");
  const bool table = info.bits <= kMostTableBits;
  CAFFE_CHECK(table == static_cast<bool>(info.make_table) && table == !functions &&
                  (table || !info.to_float.empty()),
              "data type '", info.name, "': needs a table for at most ", kMostTableBits,
              " bits, otherwise texts and functions");
  return DataType(Infos().Add(Completed(std::move(info)), std::move(functions)));
}

const TypeFunctions& FunctionsOf(DataType type) {
  CAFFE_CHECK(type.is_custom() && HasFunctions(type), "data type ", type.name(),
              " is not a type of functions");
  return Infos().Functions(type.id());
}

const ValueTable& TableOf(DataType type) {
  CAFFE_CHECK(type.is_custom() && !HasFunctions(type), "data type ", type.name(),
              " has no table of values");
  return Infos().Values(type.id());
}

std::string TypeTriple::name() const {
  if (compute == in && in == out) return compute.name();
  return compute.name() + "/" + in.name() + "/" + out.name();
}

void ConvertElements(DataType from, const void* source, DataType to, void* target, size_t count) {
  if (from == to) {
    // Arrays without elements may have null pointers, which memcpy does not take.
    if (count > 0) std::memcpy(target, source, from.FileBytes(static_cast<int64_t>(count)));
    return;
  }
  CAFFE_CHECK(from.is_float() && to.is_float(), "cannot convert ", from.name(), " to ", to.name(),
              " without a scale and a zero point; use a Quantizer");
  if (from.is_custom() || to.is_custom()) {
    std::vector<double> values(count);
    if (from.is_custom()) {
      ConvertFromCustom(from, source, values.data(), count);
    } else {
      ConvertElements(from, source, kDouble, values.data(), count);
    }
    if (!to.is_custom()) return ConvertElements(kDouble, values.data(), to, target, count);
    return ConvertToCustom(to, values.data(), target, count);
  }
  bool done = false;
  if (from == kDouble && to == kHalf) {
    ConvertFromDouble<half>(source, target, count);
    done = true;
  } else if (from == kDouble && to == kBfloat16) {
    ConvertFromDouble<bfloat16>(source, target, count);
    done = true;
  } else if (from == kFloat) {
    done = ConvertFrom<float>(to, source, target, count);
  } else if (from == kHalf) {
    done = ConvertFrom<half>(to, source, target, count);
  } else if (from == kDouble) {
    done = ConvertFrom<double>(to, source, target, count);
  } else if (from == kBfloat16) {
    done = ConvertFrom<bfloat16>(to, source, target, count);
  }
  CAFFE_CHECK(done, "there is no conversion from ", from.name(), " to ", to.name());
}

}  // namespace caffe
