// The text of a kernel that a user gives (TextKernel): its heads and loops. Nothing is compiled.
#include <algorithm>

#include "caffe/device/text_kernel.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

void Parse(std::string_view bytes) {
  const TextKernel kernel("text.h", std::string(bytes));
  if (kernel.text() != bytes) Fault("the text changes");
  const auto& parameters = kernel.signature().parameters;
  if (kernel.signature().name.empty()) Fault("a kernel without a name");
  for (const std::string& bound : kernel.bounds()) {
    const bool known =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const KernelParameter& parameter) { return parameter.name == bound; });
    if (!known) Fault("the bound " + bound + " is not an argument");
  }
}

std::vector<Input> Seeds() {
  return {{"each",
           "KERNEL(twice, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {\n"
           "  FOR_EACH(i, n) STORE(MOtype, y, i, 2 * LOAD(MItype, x, i));\n}\n"},
          {"rows",
           "// KERNEL(not, one)\n/* ( */ DEVICE_FN float one(void) { return 1.0f; }\n"
           "KERNEL(rows, ARG(i64, rows), ARG(i64, columns), ARG(float, a), OUT(f32, y)) {\n"
           "  FOR_EACH_ROW(r, rows, c, columns) { STORE(f32, y, r * columns + c, a * one()); }\n}"},
          {"spans",
           "SPAN_KERNEL(maps, ARG(i64, n), IN(Dtype, x), OUT(Dtype, y)) {\n"
           "  MAP1(n, Dtype, x, Dtype, y, v, v + 1)\n}"},
          {"group",
           "KERNEL(sums, ARG(i32, n), IN(i32, x), OUT(i64, y)) {\n"
           "  FOR_EACH_GROUP(g, n + 1) { STORE(i64, y, g, LOAD(i32, x, g)); }\n}"}};
}

std::vector<std::string> Words() {
  return {"KERNEL(", "SPAN_KERNEL(", "ARG(", "IN(",   "OUT(",      "FOLD(",         "FOR_EACH(",
          "MAP1(",   "MAP_ROWS2(",   "//",   "/*",    "*/",        "i64",           "f32",
          "MItype",  "MOtype",       "q8",   "Dtype", "Scaletype", "FOR_EACH_ROW(", "custom_"};
}

const Registration registration(
    {.name = "kernel_text", .run = Parse, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
