#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "caffe/core/data_type.hpp"

namespace caffe {

struct TypeOptions {
  // Each blob of the type has a power of two, its scale: LOAD returns scale * to_float(code), and
  // STORE takes from_float(v / scale). The net finds the scales from the ranges of its blobs, as of
  // quantized types: the smallest one with which the range fits the values of the type. Such a type
  // has at most 16 bits, and its nets do not train.
  bool scaled = false;
  // Two elements lie in a byte, in memory and in files: at most 4 bits. Parts of such arrays begin
  // at even elements, others are refused. Its nets do not train.
  bool packed = false;
  // Layers in this type compute in double, with parameters in double, and round their tops to the
  // type. For devices with fp64.
  bool simulate_double = false;
};

// Adds a type of the caller to the types of blobs: 2 to 32 bits, stored in 1, 2 or 4 bytes, with
// arithmetic in float.
//
//   RegisterType("fp6", 6, "small_float_value(code, 3, 2, 0)", "small_float_code(v, 3, 2, 0)");
//
// Prototxt files then use it by name: data_type_name, compute_data_type_name, bottom_data_type_name
// and top_data_type_name. It behaves like half: layers of the float kinds compute in it, their
// parameters are float, and every device has it.
//
// `to_float` is a float of `code`, an integer of type u32; `from_float` is a code of `v`, a float.
// Both are texts in the kernel dialect: an expression, or the body of a function with `return`.
// They may call as_f32 and as_u32 (the bits of a float), exp_f32, log_f32, small_float_value,
// small_float_code (kernels/types/small_float.h), posit_value and posit_code
// (kernels/types/posit.h). Devices compile the texts into their kernels. For the CPU they are
// computed once, for every code and for the floats at which the code changes, by the system's
// compiler or, without one, by an OpenCL or CUDA device; the program cache keeps the result. The
// variable CAFFE_CXX names another compiler.
//
// With more than 16 bits there is no table: kernels on the CPU call what the compiler made of the
// texts, so that the CPU needs a compiler, or a program cache that has its result. Values are
// floats: to_float rounds what has more than 24 significant bits.
//
// Both must return a value on each path. `from_float` must be monotonic, and it must give a code
// for every float, NaN and infinities, too. The value of each code must come back: from_float of it
// is that code, or another one with the same value. The code 0 must have the value that 0 is
// rounded to, because new memory has this code. to_float may give NaN for codes that are not used.
// The type exists until the process ends. Registering it again with the same bits and texts returns
// the same type.
//
// Throws Error if the name is taken or not an identifier, if `bits` is out of range, if a text does
// not compile (with the compiler's message), if a code has more than `bits` bits, if `from_float`
// is not monotonic, if a value does not come back, if the code 0 is not what 0 is rounded to, or if
// nothing can compile the texts.
DataType RegisterType(const std::string& name, int bits, const std::string& to_float,
                      const std::string& from_float, const TypeOptions& options = {});

// The same from functions, for at most 16 bits: they are called for every code and for about
// 200,000 floats; their exceptions are passed on. Without `from_float`, floats are rounded to the
// nearest value, and of two that are equally near to the one whose code is even; see
// ValueTable::Nearest. Devices read tables; those of types with more than 12 bits do not fit into
// the memory for constants of OpenCL devices other than processors.
DataType RegisterType(const std::string& name, int bits,
                      const std::function<float(uint32_t code)>& to_float,
                      const std::function<uint32_t(float v)>& from_float = nullptr,
                      const TypeOptions& options = {});

}  // namespace caffe
