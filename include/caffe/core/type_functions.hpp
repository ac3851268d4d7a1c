#pragma once

#include <cstddef>
#include <cstdint>

#include "caffe/core/data_type.hpp"

struct HostTypeFunctions;

namespace caffe {

// Types of users with more bits have no table (ValueTable): their functions are called.
inline constexpr int kMostTableBits = 16, kMostTypeBits = 32;

// The two functions of a type of a user. Of codes with more bits than the type, only the lower ones
// count. Threads may call them at the same time.
class TypeFunctions {
 public:
  virtual ~TypeFunctions() = default;
  virtual void Values(const uint32_t* codes, float* values, size_t count) const = 0;
  virtual void Codes(const float* values, uint32_t* codes, size_t count) const = 0;
  // The functions that kernels on the CPU call; null if nothing has compiled the functions for the
  // CPU.
  virtual const HostTypeFunctions* host() const { return nullptr; }
};

// The functions of a type of kind kCustom with more than kMostTableBits bits. Throws for others.
const TypeFunctions& FunctionsOf(DataType type);

// Whether a type of kind kCustom has functions instead of a table.
inline bool HasFunctions(DataType type) { return type.info().bits > kMostTableBits; }

}  // namespace caffe
