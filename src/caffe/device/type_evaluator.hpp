#pragma once

#include <memory>

#include "caffe/core/type_functions.hpp"

namespace caffe {

// The two functions of a user's type from its texts, which are in the kernel dialect: compiled by
// the system's compiler or, without one, by a device. The program cache keeps what the compiler
// made of types without a table. Throws with the compiler's message if a text does not compile, and
// if nothing can compile it.
std::unique_ptr<TypeFunctions> CompileType(const TypeInfo& info);

}  // namespace caffe
