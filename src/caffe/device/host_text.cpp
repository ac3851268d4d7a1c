#include "host_text.hpp"

#include <set>

#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/device/kernel_text.hpp"

namespace caffe {
namespace {

// The declarations that the library's own host kernels have from host_entry.h and host_type.h.
// Functions of types are called through their pointers.
constexpr char kPrelude[] = R"(struct HostRange {
  long begin, end;
};
struct HostTypeFunctions {
  float (*value)(unsigned);
  unsigned (*code)(float);
};
#define CAFFE_TYPE_VALUE(functions, code_) (functions)->value(code_)
#define CAFFE_TYPE_CODE(functions, v) (functions)->code(v)
#define CAFFE_HOST_KERNEL(name)
)";

// The function that calls a kernel with arguments from an array of pointers: one for a scalar, two
// for an array.
std::string Entry(const KernelSignature& kernel) {
  std::string text = Concat("extern \"C\" void ", HostEntryName(kernel.name),
                            "(HostRange range, void** arguments) {\n  ", kernel.name, "(range");
  int at = 0;
  const auto argument = [&](const std::string& type) {
    text += Concat(", *(", type, "*)arguments[", at++, "]");
  };
  for (const KernelParameter& parameter : kernel.parameters) {
    const bool in = parameter.kind == KernelParameter::Kind::kIn;
    if (!in && parameter.kind != KernelParameter::Kind::kOut) {
      argument(parameter.type);
      continue;
    }
    argument(Concat("STORAGE(", parameter.type, ")*"));
    argument(Concat("CAT(zero_, ", parameter.type, ")"));
  }
  return text + ");\n}\n";
}

}  // namespace

std::string HostWord(DataType type) {
  if (!type.is_custom()) return type.word();
  if (type.is_packed()) return "c4";
  return HasFunctions(type) ? "c32" : type.bytes() == 1 ? "c8" : "c16";
}

std::string HostEntryName(const std::string& kernel) { return "caffe_run_" + kernel; }

std::string HostText(const TypeTriple& types, const std::string& title, const std::string& text,
                     const std::vector<KernelSignature>& kernels) {
  std::set<std::string> included;
  std::string host = kPrelude;
  for (const char* part :
       {"dialect/host", "dialect/common", "math/requantize", "math/random", "math/float",
        "types/f32", "types/f16", "types/bf16", "types/f64", "types/q8", "types/q16", "types/i32",
        "types/i64", "types/table", "types/functions", "types/packed"}) {
    if (included.insert(part).second) host += KernelTextWithIncludes(part, &included);
  }
  host += Concat("#define Dtype ", HostWord(types.compute), "\n#define MItype ", HostWord(types.in),
                 "\n#define MOtype ", HostWord(types.out), "\n#define FLOAT_KIND ",
                 types.compute.is_float() ? 1 : 0, "\n");
  host += TextWithIncludes(title, text, &included) + "#line 1 \"entries of " + title + "\"\n";
  for (const KernelSignature& kernel : kernels) host += Entry(kernel);
  return host;
}

}  // namespace caffe
