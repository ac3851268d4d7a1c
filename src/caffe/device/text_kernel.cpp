#include "caffe/device/text_kernel.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

using Kind = KernelParameter::Kind;

bool IsArray(const KernelParameter& parameter) {
  return parameter.kind == Kind::kIn || parameter.kind == Kind::kOut;
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The text with blanks instead of comments; line ends stay.
std::string WithoutComments(std::string text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '/' || (text[i + 1] != '/' && text[i + 1] != '*')) continue;
    const bool line = text[i + 1] == '/';
    size_t end = line ? text.find('\n', i) : text.find("*/", i + 2);
    end = end == std::string::npos ? text.size() : line ? end : end + 2;
    for (; i < end; ++i) {
      if (text[i] != '\n') text[i] = ' ';
    }
  }
  return text;
}

// The body of a kernel, from behind its head to the next one.
std::string BodyOf(const std::string& text, const std::string& kernel) {
  for (size_t at = text.find("KERNEL("); at != std::string::npos;
       at = text.find("KERNEL(", at + 1)) {
    size_t name = at + 7;
    while (name < text.size() && std::isspace(static_cast<unsigned char>(text[name]))) ++name;
    const size_t end = name + kernel.size();
    if (text.compare(name, kernel.size(), kernel) != 0 ||
        (end < text.size() && IsWord(text[end]))) {
      continue;
    }
    const size_t next = text.find("KERNEL(", end);
    return text.substr(end, next == std::string::npos ? next : next - end);
  }
  return "";
}

// The words of a call in parentheses from `open` on; an item that is not one word is empty.
std::vector<std::string> WordsOfCall(const std::string& text, size_t open) {
  std::vector<std::string> items;
  std::string item;
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' && depth++ == 0) continue;
    const bool end = c == ')' && --depth == 0;
    if (end || (c == ',' && depth == 1)) {
      const auto first = item.find_first_not_of(" \n\t");
      item = first == std::string::npos
                 ? ""
                 : item.substr(first, item.find_last_not_of(" \n\t") - first + 1);
      items.push_back(std::all_of(item.begin(), item.end(), IsWord) ? item : "");
      item.clear();
      if (end) break;
    } else {
      item += c;
    }
  }
  return items;
}

struct Loop {
  const char* word;
  std::vector<size_t> bounds;  // positions among its arguments
};

// The arguments that bound every loop of a body; empty if loops differ, or if a bound
// is not an argument.
std::vector<std::string> BoundsOf(const std::string& body, const KernelSignature& signature) {
  static const auto* const loops = new std::vector<Loop>{
      {"FOR_EACH", {1}},        {"FOR_EACH_GROUP", {1}}, {"MAP1", {0}},        {"MAP2", {0}},
      {"FOR_EACH_ROW", {1, 3}}, {"MAP_ROWS1", {0, 1}},   {"MAP_ROWS2", {0, 1}}};
  std::optional<std::vector<std::string>> found;
  for (size_t at = 0; at < body.size(); ++at) {
    if (!IsWord(body[at]) || (at > 0 && IsWord(body[at - 1]))) continue;
    size_t end = at;
    while (end < body.size() && IsWord(body[end])) ++end;
    const std::string word = body.substr(at, end - at);
    const auto loop = std::find_if(loops->begin(), loops->end(),
                                   [&](const Loop& row) { return word == row.word; });
    while (end < body.size() && std::isspace(static_cast<unsigned char>(body[end]))) ++end;
    if (loop == loops->end() || end >= body.size() || body[end] != '(') continue;
    const std::vector<std::string> words = WordsOfCall(body, end);
    std::vector<std::string> bounds;
    for (const size_t bound : loop->bounds) {
      const std::string name = bound < words.size() ? words[bound] : "";
      const bool argument = std::any_of(
          signature.parameters.begin(), signature.parameters.end(),
          [&](const KernelParameter& row) { return !IsArray(row) && row.name == name; });
      if (!argument) return {};
      bounds.push_back(name);
    }
    if (found && *found != bounds) return {};
    found = bounds;
  }
  return found.value_or(std::vector<std::string>{});
}

std::string Extents(const std::vector<int64_t>& size) {
  std::string text;
  for (const int64_t extent : size) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}

// The type of a word that is one of the dialect's types.
std::optional<DataType> TypeOfWord(const std::string& word) {
  for (const DataType type : BuiltInTypes()) {
    if (type.word() == word) return type;
  }
  constexpr std::string_view kCustom = "custom_";
  if (word.starts_with(kCustom)) return DataTypeByName(word.substr(kCustom.size()));
  return std::nullopt;
}

std::string Listed(const std::vector<KernelSignature>& kernels) {
  std::string names;
  for (const KernelSignature& kernel : kernels) names += (names.empty() ? "" : ", ") + kernel.name;
  return names;
}

}  // namespace

TextKernel::TextKernel(std::string title, std::string text, const std::string& kernel)
    : title_(std::move(title)), text_(std::move(text)) {
  // Compilers name it as a file, which is read from their messages.
  CAFFE_CHECK(
      !title_.empty() && std::all_of(title_.begin(), title_.end(),
                                     [](char c) { return IsWord(c) || c == '.' || c == '-'; }),
      "a kernel's title has letters, digits, '_', '.' and '-', as in swish.h; not '", title_, "'");
  plain_ = WithoutComments(text_);
  const std::vector<KernelSignature> kernels = ParseKernelHeads(title_, plain_);
  CAFFE_CHECK(!kernels.empty(), title_,
              ": the text has no kernel; it begins as KERNEL(name, ARG(i64, n), IN(MItype, x), "
              "OUT(MOtype, y)) { … }");
  CAFFE_CHECK(!kernel.empty() || kernels.size() == 1, title_, ": the text has the kernels ",
              Listed(kernels), "; name the one that is meant");
  const auto found = std::find_if(
      kernels.begin(), kernels.end(),
      [&](const KernelSignature& signature) { return kernel.empty() || signature.name == kernel; });
  CAFFE_CHECK(found != kernels.end(), title_, ": the text has no kernel ", kernel, "; it has ",
              Listed(kernels));
  signature_ = *found;
  where_ = title_ == signature_.name ? "kernel " + title_ : title_ + ", kernel " + signature_.name;
  CAFFE_CHECK(plain_.find("BLOCK_KERNEL(") == std::string::npos, where_,
              ": BLOCK_KERNEL is for kernels of the library; write KERNEL or SPAN_KERNEL");
  for (const KernelParameter& parameter : signature_.parameters) {
    if (!IsArray(parameter)) {
      CAFFE_CHECK(parameter.type != "Scaletype" && parameter.type != "Requant", where_,
                  ": argument ", parameter.name, " has the type ", parameter.type,
                  ", which is for kernels of the library; numbers are i32, u32, i64, u64, float, ",
                  "double or Acctype");
      ScalarKindOf(parameter, TypeTriple::Equal(kFloat));
      continue;
    }
    const std::string& word = parameter.type;
    const bool known = word == "Dtype" || word == "MItype" || word == "MOtype" ||
                       word == "Mastertype" || word == "i32" || word == "i64" ||
                       (TypeOfWord(word) && !word.starts_with("custom_"));
    CAFFE_CHECK(known, where_, ": the array ", parameter.name, " has the type ", word,
                "; arrays are MItype, MOtype, Dtype, Mastertype, f32, f16, bf16, f64, q8, q16, ",
                "i32 or i64. MItype, MOtype and Dtype stand for the type of what a call passes");
  }
  const std::string body = BodyOf(plain_, signature_.name);
  CAFFE_CHECK(!signature_.spans || body.find("FOR_EACH") == std::string::npos, where_,
              ": a SPAN_KERNEL has the loops MAP1, MAP2, MAP_ROWS1 and MAP_ROWS2, because a GPU ",
              "launches one item for several elements; write KERNEL for FOR_EACH");
  bounds_ = BoundsOf(body, signature_);
}

void TextKernel::Refuse(size_t argument, const std::string& why) const {
  const KernelParameter& parameter = signature_.parameters[argument];
  CAFFE_THROW(where_, ": argument ", argument, " (", parameter.type, " ", parameter.name, ") ",
              why);
}

std::vector<int64_t> TextKernel::Size(const std::vector<Argument>& arguments,
                                      const std::vector<int64_t>& given) const {
  CAFFE_CHECK(given.size() <= 2, where_, ": a size has one or two extents, not ", given.size());
  if (bounds_.empty()) {
    CAFFE_CHECK(!given.empty(), where_, ": its loop is not bounded by arguments alone, so the ",
                "launch needs a size: how many elements FOR_EACH has, or rows and columns");
    return given;
  }
  std::vector<int64_t> size;
  for (const std::string& bound : bounds_) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (signature_.parameters[i].name != bound || IsArray(signature_.parameters[i])) continue;
      if (arguments[i].value.kind != KernelArgument::Kind::kInteger) {
        Refuse(i, "bounds the loop and must be an integer");
      }
      size.push_back(arguments[i].value.integer);
    }
  }
  CAFFE_CHECK(given.empty() || given == size, where_, ": the size ", Extents(given),
              " is not that of its loop, which the arguments say: ", Extents(size));
  return size;
}

TypeTriple TextKernel::Types(const std::vector<Argument>& arguments) const {
  std::map<std::string, std::pair<DataType, size_t>> known;  // by MItype, MOtype, Dtype
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& declared = signature_.parameters[i].type;
    if (!IsArray(signature_.parameters[i])) continue;
    if (declared != "Dtype" && declared != "MItype" && declared != "MOtype") continue;
    const std::optional<DataType> type = TypeOfWord(arguments[i].word);
    if (!type) {
      Refuse(i, Concat("is ", arguments[i].what, " of ", arguments[i].word, "; declare it as IN(",
                       arguments[i].word, ", ", signature_.parameters[i].name, ")"));
    }
    const auto [found, added] = known.try_emplace(declared, *type, i);
    if (!added && !(found->second.first == *type)) {
      Refuse(i, Concat("is ", arguments[i].what, " of ", type->name(), ", but ",
                       arguments[found->second.second].what, ", which is ", declared,
                       ", too, is of ", found->second.first.name()));
    }
  }
  const auto of = [&](const char* word) -> std::optional<DataType> {
    const auto found = known.find(word);
    return found == known.end() ? std::nullopt : std::optional(found->second.first);
  };
  const bool wide = of("MItype") == kDouble || of("MOtype") == kDouble;
  const DataType compute = of("Dtype").value_or(wide ? kDouble : kFloat);
  const TypeTriple types{compute, of("MItype").value_or(compute), of("MOtype").value_or(compute)};
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string declared = signature_.parameters[i].type;
    if (!IsArray(signature_.parameters[i])) continue;
    if (declared == "Mastertype") declared = compute == kDouble ? "f64" : "f32";
    const bool named = declared != "Dtype" && declared != "MItype" && declared != "MOtype";
    if (named && declared != arguments[i].word) {
      Refuse(i, Concat("is ", arguments[i].what, " of ", arguments[i].word, ", not ", declared));
    }
  }
  return types;
}

Kernel* TextKernel::Built(Device* device, const TypeTriple& types) {
  std::unique_ptr<Kernel>& kernel = kernels_[{device, types}];
  if (kernel) return kernel.get();
  ProgramBuilder builder(device, title_);
  builder.Types(types).Source(title_, plain_);
  for (const KernelParameter& parameter : signature_.parameters) {
    const auto type = IsArray(parameter) ? TypeOfWord(parameter.type) : std::nullopt;
    if (type) builder.AlsoType(*type);
  }
  kernel = builder.Build()->CreateKernel(signature_.name);
  return kernel.get();
}

void TextKernel::Launch(const std::vector<Argument>& arguments, const std::vector<int64_t>& size,
                        Device* device) {
  CAFFE_CHECK(arguments.size() == signature_.parameters.size(), where_, " has ",
              signature_.parameters.size(), " arguments, and the launch passes ", arguments.size());
  Device* of_array = nullptr;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (IsArray(signature_.parameters[i]) == argument.word.empty()) {
      Refuse(i, Concat(argument.word.empty() ? "is an array, and the launch passes "
                                             : "is a number, and the launch passes ",
                       argument.what));
    }
    if (argument.word.empty()) continue;
    if (of_array && argument.device != of_array) {
      Refuse(i, Concat("is ", argument.what, " on ", argument.device->info().id,
                       ", but another array is on ", of_array->info().id,
                       "; all arrays of a launch are on one device"));
    }
    of_array = argument.device;
  }
  if (!device) device = of_array ? of_array : Runtime::Get().default_device();
  CAFFE_CHECK(!of_array || device == of_array, where_, ": the launch is on ", device->info().id,
              ", but its arrays are on ", of_array->info().id);
  const std::vector<int64_t> extents = Size(arguments, size);
  int64_t elements = 1;
  for (const int64_t extent : extents) {
    CAFFE_CHECK(extent >= 0, where_, ": the size ", Extents(extents), " is negative");
    CAFFE_CHECK(!__builtin_mul_overflow(elements, extent, &elements) && elements <= INT32_MAX,
                where_, ": the size ", Extents(extents), " is more than 2^31 - 1 elements");
  }
  KernelArguments values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    const int64_t needed = argument.needed < 0 ? elements : argument.needed;
    if (!argument.word.empty() && argument.count < needed) {
      Refuse(i, Concat("is ", argument.what, " of ", argument.count, " elements, and the kernel ",
                       argument.needed < 0 ? "has a loop over " : "uses ", needed,
                       argument.needed < 0
                           ? "; if it uses fewer elements of the array, say how many: elements"
                           : ""));
    }
    values.push_back(argument.value);
  }
  const TypeTriple types = Types(arguments);
  if (elements == 0) return;
  const LaunchRange range =
      extents.size() == 2 ? LaunchRange(extents[0], extents[1]) : LaunchRange(extents[0]);
  Built(device, types)->Launch(range, values);
}

}  // namespace caffe
