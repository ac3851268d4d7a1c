#include "custom_type.hpp"

#include <bit>
#include <string>

#include "caffe/core/error.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/kernel_text.hpp"

namespace caffe {
namespace {

// One function from an expression, or from the body of a function, which `end` follows.
std::string Function(const std::string& head, const std::string& title, const std::string& text,
                     const std::string& end) {
  const bool body = text.find("return") != std::string::npos;
  return Concat("DEVICE_FN ", head, " {\n#line 1 \"", title, "\"\n", body ? "" : "return ", text,
                body ? "" : ";", "\n", body ? end : "", "}\n");
}

template <class T, class Value>
std::string Array(const std::string& type, const std::string& name, const std::vector<T>& rows,
                  const Value& value) {
  std::string text = Concat("CONSTANT ", type, " ", name, "[", rows.size(), "] = {");
  for (size_t i = 0; i < rows.size(); ++i) {
    text += i == 0 ? "" : i % 16 ? "," : ",\n";
    text += std::to_string(value(rows[i])) + "u";
  }
  return text + "};\n";
}

// The functions from the table: values by index, and the step of a float by halving.
std::string TableFunctions(DataType type, int64_t constant_bytes) {
  const ValueTable& table = TableOf(type);
  const std::string& word = type.word();
  const auto bytes = static_cast<int64_t>(4 * table.values().size() + 6 * table.steps().size());
  CAFFE_CHECK(constant_bytes == 0 || bytes <= constant_bytes, "data type ", type.name(),
              ": its table has ", bytes, " bytes, and this device holds ", constant_bytes,
              " in its constant memory; register the type by texts, or with at most 12 bits");
  std::string text = Array("u32", "values_" + word, table.values(),
                           [](float value) { return std::bit_cast<uint32_t>(value); });
  text += Array("u32", "first_" + word, table.steps(), [](const auto& step) { return step.bits; });
  text += Array("u16", "codes_" + word, table.steps(), [](const auto& step) { return step.code; });
  return text + Concat("DEVICE_FN float to_float_", word, "(u32 code) { return as_f32(values_",
                       word, "[code]); }\nDEVICE_FN u32 from_float_", word,
                       "(float v) {\n  const u32 bits = as_u32(v);\n  i32 begin = 0, end = ",
                       table.steps().size(),
                       ";\n  while (end - begin > 1) {\n    const i32 middle = (begin + end) / 2;\n"
                       "    if (first_",
                       word,
                       "[middle] <= bits) {\n      begin = middle;\n    } else {\n"
                       "      end = middle;\n    }\n  }\n  return codes_",
                       word, "[begin];\n}\n");
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string Functions(const TypeInfo& info, std::set<std::string>* included,
                      const std::string& end_of_to, const std::string& end_of_from) {
  std::string text;
  for (const auto& [prefix, path] :
       {std::pair<std::string, std::string>{"small_float_", "types/small_float"},
        {"posit_", "types/posit"}}) {
    const bool calls = (info.to_float + info.from_float).find(prefix) != std::string::npos;
    if (calls && included->insert(path).second) text += KernelTextWithIncludes(path, included);
  }
  text += Function("float to_float_" + info.word + "(u32 code)", info.name + ".to_float",
                   info.to_float, end_of_to);
  return text + Function("u32 from_float_" + info.word + "(float v)", info.name + ".from_float",
                         info.from_float, end_of_from);
}

}  // namespace

std::string CustomFunctions(const TypeInfo& info, std::set<std::string>* included) {
  return Functions(info, included, "", "");
}

std::string CustomFunctionsThatReturn(const TypeInfo& info, std::set<std::string>* included) {
  return Functions(info, included, Concat("return as_f32(", kNoValue, "u);\n"),
                   Concat("return ", kNoCode, "u;\n"));
}

std::string CodeMask(const TypeInfo& info) { return Concat(0xffffffffu >> (32 - info.bits), "u"); }

std::string CustomTypeText(DataType type, int64_t constant_bytes, std::set<std::string>* included) {
  const TypeInfo& info = type.info();
  std::string text = info.to_float.empty() ? TableFunctions(type, constant_bytes)
                                           : CustomFunctions(info, included);
  std::string body = KernelText("types/custom");
  body = Replaced(body, "NAME", info.word);
  body = Replaced(body, "CODE", info.bytes == 1 ? "u8" : info.bytes == 2 ? "u16" : "u32");
  body = Replaced(body, "BYTES", std::to_string(info.bytes));
  body = Replaced(body, "HAS_SCALE", info.scaled ? "1" : "0");
  body = Replaced(body, "IS_PACKED", info.packed ? "1" : "0");
  body = Replaced(body, "MASK", CodeMask(info));
  return text + "#line 1 \"kernels/types/custom.h\"\n" + body + "\n";
}

}  // namespace caffe
