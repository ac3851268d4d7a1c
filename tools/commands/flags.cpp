#include "commands/flags.hpp"

#include <algorithm>
#include <cctype>

#include "caffe/core/error.hpp"
#include "caffe/core/near_name.hpp"
#include "caffe/io/file_list.hpp"
#include "caffe/io/text_lines.hpp"

namespace caffe {
namespace {

constexpr int kMaxDepth = 8;  // flagfiles may name flagfiles
constexpr int kMaxFiles = 1000;

class Rewriter {
 public:
  explicit Rewriter(const std::vector<FlagSpec>& known) : known_(known) {}

  void Arguments(const std::vector<std::string>& arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (argument == "--") {
        result.positional.insert(result.positional.end(), arguments.begin() + i + 1,
                                 arguments.end());
        return;
      }
      if (!IsFlag(argument)) {
        result.positional.push_back(argument);
        continue;
      }
      const std::string* next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
      if (Flag(argument, next, 0)) ++i;
    }
  }

  RewrittenFlags result;

 private:
  static bool IsFlag(const std::string& argument) {
    return argument.size() > 1 && argument[0] == '-' &&
           !std::isdigit(static_cast<unsigned char>(argument[1])) && argument[1] != '.';
  }

  const FlagSpec* Find(const std::string& name) const {
    for (const FlagSpec& spec : known_) {
      if (spec.name == name) return &spec;
    }
    return nullptr;
  }

  // Returns true if `next` was used as the value.
  bool Flag(const std::string& argument, const std::string* next, int depth) {
    const size_t begin = argument.compare(0, 2, "--") == 0 ? 2 : 1;
    const size_t equal = argument.find('=');
    const bool has_value = equal != std::string::npos;
    std::string name = argument.substr(begin, has_value ? equal - begin : equal);
    std::replace(name.begin(), name.end(), '-', '_');
    std::string value = has_value ? argument.substr(equal + 1) : "";

    if (const FlagSpec* spec = Find(name); spec && spec->boolean) {
      result.flags.push_back("--" + name + "=" + (has_value ? Boolean(name, value) : "true"));
      return false;
    } else if (!spec && !has_value && name.compare(0, 2, "no") == 0) {
      const FlagSpec* negated = Find(name.substr(2));
      if (negated && negated->boolean) {
        result.flags.push_back("--" + negated->name + "=false");
        return false;
      }
    }
    const bool file = name == "flagfile";
    if (!file && !Find(name)) Unknown(name);
    if (!has_value) {
      CAFFE_CHECK(next, "flag --", name, " needs a value");
      value = *next;
    }
    if (file) {
      for (const std::string& path : FilesInList(value)) File(path, depth);
    } else {
      result.flags.push_back("--" + name + "=" + value);
    }
    return !has_value;
  }

  static std::string Boolean(const std::string& name, std::string value) {
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (value == "true" || value == "t" || value == "1" || value == "yes" || value == "y") {
      return "true";
    }
    CAFFE_CHECK(value == "false" || value == "f" || value == "0" || value == "no" || value == "n",
                "flag --", name, " must be true or false, not '", value, "'");
    return "false";
  }

  void File(const std::string& path, int depth) {
    CAFFE_CHECK(depth < kMaxDepth, "flagfile ", path, ": flagfiles are nested too deeply");
    CAFFE_CHECK(++files_ <= kMaxFiles, "flagfile ", path, ": more than ", kMaxFiles,
                " flagfiles are read");
    for (const auto& [text, number] : ReadTextLines(path)) {
      const std::string line = text.substr(text.find_first_not_of(" \t\r"));
      if (line[0] == '#') continue;
      CAFFE_CHECK(IsFlag(line), "flagfile ", path, ", line ", number, ": '", line,
                  "' is not a flag");
      Flag(line, nullptr, depth + 1);
    }
  }

  [[noreturn]] void Unknown(const std::string& name) const {
    std::vector<std::string> names;
    for (const FlagSpec& spec : known_) names.push_back(spec.name);
    const std::string nearest = NearName(name, names);
    CAFFE_THROW("unknown command line flag '", name, "'",
                nearest.empty() ? "" : "; did you mean --" + nearest + "?");
  }

  const std::vector<FlagSpec>& known_;
  int files_ = 0;
};

}  // namespace

RewrittenFlags RewriteFlags(const std::vector<std::string>& arguments,
                            const std::vector<FlagSpec>& known) {
  Rewriter rewriter(known);
  rewriter.Arguments(arguments);
  return std::move(rewriter.result);
}

}  // namespace caffe
