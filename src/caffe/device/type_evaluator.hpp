#pragma once

#include <memory>
#include <string>

#include "caffe/core/value_table.hpp"

namespace caffe {

// Computes the two functions of a user's type, whose texts are in the kernel dialect.
class TypeEvaluator {
 public:
  virtual ~TypeEvaluator() = default;
  virtual void Values(const uint32_t* codes, float* values, size_t count) = 0;
  virtual void Codes(const float* values, uint32_t* codes, size_t count) = 0;

  // By the system's compiler or, without one, by a device. Throws with the compiler's message if a
  // text does not compile, and if nothing can compile it.
  static std::unique_ptr<TypeEvaluator> Make(const TypeInfo& info);
};

}  // namespace caffe
