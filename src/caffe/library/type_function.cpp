#include "caffe/library/type_function.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/device/text_kernel.hpp"
#include "caffe/library/element_function.hpp"

namespace caffe {
namespace {

using Codes = std::vector<uint16_t>;

struct Registry {
  std::mutex mutex;
  std::map<std::pair<DataType, std::string>, std::shared_ptr<const Codes>> functions;
};

Registry& Functions() {
  static auto* const registry = new Registry;
  return *registry;
}

// Layers that are a row of the table alone, without constants.
std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const ElementFunction::Kind kind : ElementFunction::Kinds()) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    if (row.constants == 0 && !row.summary.empty()) names.push_back(row.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The type, if it can have such a function.
DataType Checked(const std::string& name, const std::string& function) {
  const DataType type = DataTypeByName(name);
  CAFFE_CHECK(type.is_custom(), "data type '", name,
              "' is not a type of a user, so that it has no functions of its own");
  CAFFE_CHECK(!HasFunctions(type), "data type '", name, "' has ", type.info().bits,
              " bits; functions of its own are tables, for at most ", kMostTableBits, " bits");
  CAFFE_CHECK(!type.is_scaled(), "data type '", name,
              "' has a scale for each blob, so that a code ",
              "stands for no number of its own; functions of a type are for types without scaled");
  const std::vector<std::string> names = Names();
  std::string known;
  for (const std::string& row : names) known += (known.empty() ? "" : ", ") + row;
  CAFFE_CHECK(std::find(names.begin(), names.end(), function) != names.end(), "data type '", name,
              "': it can have a function of its own for ", known, ", not for ", function);
  return type;
}

void Add(DataType type, const std::string& function, const std::vector<float>& results) {
  const ValueTable& table = TableOf(type);
  auto codes = std::make_shared<Codes>(type.bytes() == 1 ? 256 : 65536);
  for (size_t code = 0; code < codes->size(); ++code) {
    (*codes)[code] = static_cast<uint16_t>(table.Code(results[code & (results.size() - 1)]));
  }
  const std::lock_guard lock(Functions().mutex);
  const auto [found, added] = Functions().functions.try_emplace({type, function}, std::move(codes));
  CAFFE_CHECK(added || *found->second == *codes, "data type '", type.name(), "' has another ",
              function, "; functions of types cannot be changed");
}

struct Array {
  Array(Device* on, int64_t bytes) : device(on), pointer(on->Allocate(bytes, "values of a type")) {}
  ~Array() { device->Free(pointer); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Device* device;
  DevicePtr pointer;
};

constexpr uint32_t kNoResult = 0x7f4dcba9;

// The text's value for every code, computed by a kernel.
std::vector<float> Evaluate(Device* device, const std::string& title, const std::string& text,
                            const std::vector<float>& values) {
  const bool body = text.find("return") != std::string::npos;
  // Compilers of devices do not say that a function does not return; the host's do.
  const bool checks = device != Runtime::Get().cpu();
  TextKernel kernel(
      title, Concat("#include \"types/small_float.h\"\n#include \"types/posit.h\"\n",
                    "DEVICE_FN float own_function(float v, u32 code) {\n#line 1 \"", title, "\"\n",
                    body ? "" : "return ", text, body ? "" : ";", "\n",
                    body && checks ? Concat("return as_f32(", kNoResult, "u);\n") : "", "}\n",
                    "KERNEL(type_function, ARG(i64, n), IN(f32, values), OUT(f32, results)) {\n"
                    "  FOR_EACH(i, n) {\n"
                    "    STORE(f32, results, i, own_function(LOAD(f32, values, i), (u32)i));\n"
                    "  }\n}\n"));
  const auto n = static_cast<int64_t>(values.size());
  std::vector<float> results(values.size());
  const Array from(device, 4 * n), to(device, 4 * n);
  device->Upload(from.pointer, values.data(), 4 * n);
  kernel.Launch({{n, "", 0, "the number of codes"},
                 {from.pointer.ReadOnly(), "f32", n, "the values", device},
                 {to.pointer, "f32", n, "the results", device}});
  device->Download(results.data(), to.pointer, 4 * n);
  for (size_t code = 0; code < results.size() && checks; ++code) {
    CAFFE_CHECK(std::bit_cast<uint32_t>(results[code]) != kNoResult, title,
                " does not return a value on each path: none for the code ", code);
  }
  return results;
}

}  // namespace

void RegisterTypeFunction(const std::string& type, const std::string& function,
                          const std::string& text) {
  const DataType known = Checked(type, function);
  const std::string title = type + "." + function;
  const std::vector<float>& values = TableOf(known).values();
  try {
    Add(known, function, Evaluate(Runtime::Get().cpu(), title, text, values));
  } catch (const NoHostCompiler&) {
    const auto& devices = Runtime::Get().devices();
    if (devices.empty()) throw;
    Add(known, function, Evaluate(devices.front(), title, text, values));
  }
}

void RegisterTypeFunction(const std::string& type, const std::string& function,
                          const std::function<float(float v, uint32_t code)>& value) {
  const DataType known = Checked(type, function);
  CAFFE_CHECK(value, "data type '", type, "': ", function, " needs a function");
  std::vector<float> results;
  for (const float of_code : TableOf(known).values()) {
    results.push_back(value(of_code, static_cast<uint32_t>(results.size())));
  }
  Add(known, function, results);
}

std::shared_ptr<const Codes> TypeFunction(DataType type, const std::string& function) {
  if (!type.is_custom()) return nullptr;
  const std::lock_guard lock(Functions().mutex);
  const auto found = Functions().functions.find({type, function});
  return found == Functions().functions.end() ? nullptr : found->second;
}

}  // namespace caffe
