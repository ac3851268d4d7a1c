#pragma once

#include <set>
#include <string>

#include "caffe/core/data_type.hpp"

namespace caffe {

// The functions to_float_<word>(code) and from_float_<word>(v) of a type of kind kCustom, from its
// texts. Also includes the files of types/ that the texts call functions of.
std::string CustomFunctions(const TypeInfo& info, std::set<std::string>* included);
// The same with functions that return kNoValue and kNoCode where a text does not return: compilers
// of devices do not report that.
std::string CustomFunctionsThatReturn(const TypeInfo& info, std::set<std::string>* included);
inline constexpr uint32_t kNoValue = 0x7f4dcba9, kNoCode = 0xffffffff;

// The bits of a code, for the dialect: 0xffffffu.
std::string CodeMask(const TypeInfo& info);

// The whole type for OpenCL and CUDA: its functions, of texts or of its table, and types/custom. At
// most `constant_bytes` of tables, or it throws and recommends texts; 0 means no limit.
std::string CustomTypeText(DataType type, int64_t constant_bytes, std::set<std::string>* included);

}  // namespace caffe
