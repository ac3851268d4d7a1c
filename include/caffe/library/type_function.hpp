#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

// Gives a type of a user (RegisterType) a function of its own: what an element-wise layer computes
// in the type, by code.
//
//   RegisterTypeFunction("posit8", "Sigmoid", "posit_value((code ^ 128u) >> 2, 8, 2)");
//
// `function` is a layer without constants: AbsVal, BNLL, Sigmoid or TanH. `text` is a float of `v`,
// the value of the bottom's element, and of `code`, its code: an expression, or the body of a
// function with `return`, in the kernel dialect, with the functions that texts of types may call.
// It is computed once for each code, by the system's compiler or, without one, by a device, and
// rounded to the type. Layers of that name in nets that are made later read the table, on every
// device, and are not fused with others. Their gradient is that of the exact function.
//
// The type has at most 16 bits. The same call again has no effect. Throws Error for other types and
// functions, if the type has another function of that name, or if the text does not compile.
void RegisterTypeFunction(const std::string& type, const std::string& function,
                          const std::string& text);
// The same with a function that is called for every code.
void RegisterTypeFunction(const std::string& type, const std::string& function,
                          const std::function<float(float v, uint32_t code)>& value);

// The codes of the function by code, for all codes of the storage: 256 or 65,536. Null without
// such a function.
std::shared_ptr<const std::vector<uint16_t>> TypeFunction(DataType type,
                                                          const std::string& function);

}  // namespace caffe
