#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "caffe/core/numeric.hpp"

namespace caffe {

class ValueTable;

enum class TypeKind { kFloat, kQuantized, kCustom };

// The properties of a type. `word` is its name in the kernel dialect (f32, f16, q8, …).
struct TypeInfo {
  std::string name;  // float, half, double, bfloat16, quant8, quant16, or a user's name
  std::string word;  // f32 f16 f64 bf16 q8 q16, or custom_<name>
  TypeKind kind = TypeKind::kFloat;
  int proto = 0;                   // number in the enum DataType of caffe.proto
  size_t bytes = 0;                // of one element in memory
  int code_min = 0, code_max = 0;  // of the codes of a quantized type
  std::string accumulator;         // C type of Acctype in kernels: float, double, i32, i64
  std::string scale;               // C type of Scaletype: float, double, Requant
  // A type of kind kCustom: values of `bits` bits in 1, 2 or 4 bytes, with arithmetic in float.
  int bits = 0;
  // Its two texts in the kernel dialect: a float of `code` (u32), and a code of `v` (float). Each
  // is an expression, or the body of a function with `return`. Empty: devices read the table.
  std::string to_float, from_float;
  std::function<std::unique_ptr<ValueTable>()> make_table;  // for TableOf; of at most 16 bits
  // Each blob of this type, of kind kCustom, has a power of two, by which the values of its codes
  // are multiplied. It follows from the range of the blob.
  bool scaled = false;
  // An array of this type, of kind kCustom with at most 4 bits, has two elements in a byte, the
  // first one in the lower bits, although `bytes` is 1: see DataType::StorageBytes.
  bool packed = false;
  // Layers in this type, of kind kCustom, compute in double.
  bool simulates_double = false;
};

// An interned id: two user-defined types with different names differ. Cheap to copy and compare.
class DataType {
 public:
  constexpr DataType() = default;
  constexpr explicit DataType(int id) : id_(id) {}
  constexpr int id() const { return id_; }
  const TypeInfo& info() const;
  const std::string& name() const { return info().name; }
  const std::string& word() const { return info().word; }
  size_t bytes() const { return info().bytes; }
  bool is_float() const { return info().kind != TypeKind::kQuantized; }
  bool is_quantized() const { return info().kind == TypeKind::kQuantized; }
  bool is_custom() const { return info().kind == TypeKind::kCustom; }
  bool is_scaled() const { return info().scaled; }
  bool is_packed() const { return info().packed; }
  // The bytes of an array in memory; of a packed type a multiple of 4.
  int64_t StorageBytes(int64_t count) const {
    return is_packed() ? (count + 7) / 8 * 4 : count * static_cast<int64_t>(bytes());
  }
  // The same in a file.
  int64_t FileBytes(int64_t count) const {
    return is_packed() ? (count + 1) / 2 : count * static_cast<int64_t>(bytes());
  }
  // Blobs of this type need a range.
  bool has_range() const { return is_quantized() || is_scaled(); }
  friend constexpr bool operator==(DataType a, DataType b) { return a.id_ == b.id_; }
  friend constexpr auto operator<=>(DataType a, DataType b) = default;

 private:
  int id_ = 0;
};

inline constexpr DataType kFloat{0}, kHalf{1}, kDouble{2}, kQuant8{3}, kQuant16{4}, kBfloat16{5};

// The types that the library was built with, in the order of their ids.
const std::vector<DataType>& BuiltInTypes();
// float, half, bfloat16, double.
const std::vector<DataType>& FloatTypes();

// Finds a type by name or by its number in caffe.proto. Throws for an unknown one and lists the
// known ones, with the function that registers types.
DataType DataTypeByName(std::string_view name);
DataType DataTypeByProto(int number);

template <class T> struct DataTypeOf;
template <> struct DataTypeOf<float> { static constexpr DataType value = kFloat; };
template <> struct DataTypeOf<half> { static constexpr DataType value = kHalf; };
template <> struct DataTypeOf<double> { static constexpr DataType value = kDouble; };
template <> struct DataTypeOf<quant8> { static constexpr DataType value = kQuant8; };
template <> struct DataTypeOf<quant16> { static constexpr DataType value = kQuant16; };
template <> struct DataTypeOf<bfloat16> { static constexpr DataType value = kBfloat16; };

// The types of a layer: compute, bottoms and tops.
struct TypeTriple {
  DataType compute, in, out;
  static TypeTriple Equal(DataType type) { return {type, type, type}; }
  // "half", or "float/half/float" (compute/in/out) if they differ.
  std::string name() const;
  friend bool operator==(const TypeTriple&, const TypeTriple&) = default;
  friend auto operator<=>(const TypeTriple&, const TypeTriple&) = default;
};

// Converts `count` elements between two types that are not quantized, rounding to nearest even, or
// as from_float of a user's type does.
// Throws for quantized types, which need a scale and a zero point, unless the types are equal: then
// codes are copied. Arrays of a packed type have FileBytes.
void ConvertElements(DataType from, const void* source, DataType to, void* target, size_t count);

}  // namespace caffe
