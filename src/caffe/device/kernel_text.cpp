#include "caffe/device/kernel_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "caffe/core/error.hpp"

namespace caffe {

struct EmbeddedText {
  const char* path;
  const char* text;
};
extern const EmbeddedText kEmbeddedTexts[];

namespace {

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// One KERNEL(…), SPAN_KERNEL(…) or BLOCK_KERNEL(…) in a text: positions of the word, of its
// parenthesis and after its end.
struct Head {
  size_t begin, open, end;
  bool spans;
  std::vector<std::string> items;  // name, then the declarations, trimmed
};

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::vector<Head> FindHeads(const std::string& text) {
  std::vector<Head> heads;
  size_t at = 0;
  while ((at = text.find("KERNEL(", at)) != std::string::npos) {
    const size_t line = text.rfind('\n', at) + 1;
    const bool comment = text.substr(line, at - line).find("//") != std::string::npos;
    const auto follows = [&](const std::string& prefix) {
      return at >= prefix.size() && text.compare(at - prefix.size(), prefix.size(), prefix) == 0;
    };
    const bool spans = follows("SPAN_"), blocks = follows("BLOCK_");
    const size_t begin = at - (spans ? 5 : blocks ? 6 : 0);
    if (comment || (begin > 0 && IsWord(text[begin - 1]))) {
      at += 7;
      continue;
    }
    Head head{begin, at + 6, 0, spans, {}};
    int depth = 0;
    std::string item;
    for (size_t i = head.open; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '(' && depth++ == 0) continue;
      if (c == ')' && --depth == 0) {
        head.end = i + 1;
        break;
      }
      if (c == ',' && depth == 1) {
        head.items.push_back(Trim(item));
        item.clear();
      } else {
        item += c;
      }
    }
    CAFFE_CHECK(head.end != 0, "a KERNEL( head has no closing parenthesis: ", text.substr(at, 60));
    head.items.push_back(Trim(item));
    at = head.end;
    heads.push_back(std::move(head));
  }
  return heads;
}

KernelParameter ParseParameter(const std::string& kernel, const std::string& item) {
  static const std::map<std::string, KernelParameter::Kind> kinds{
      {"ARG", KernelParameter::Kind::kScalar},
      {"FOLD", KernelParameter::Kind::kFold},
      {"IN", KernelParameter::Kind::kIn},
      {"OUT", KernelParameter::Kind::kOut}};
  const size_t open = item.find('('), comma = item.find(','), close = item.rfind(')');
  const bool whole = open != std::string::npos && comma != std::string::npos &&
                     close != std::string::npos && open < comma && comma < close;
  const auto kind = whole ? kinds.find(Trim(item.substr(0, open))) : kinds.end();
  CAFFE_CHECK(kind != kinds.end(), "kernel ", kernel, ": '", item,
              "' is not one of ARG(type, name), FOLD(type, name), IN(type, name), OUT(type, name)");
  return {kind->second, Trim(item.substr(open + 1, comma - open - 1)),
          Trim(item.substr(comma + 1, close - comma - 1))};
}

}  // namespace

const std::string& KernelText(const std::string& path) {
  static std::mutex mutex;
  static auto* const texts = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  const auto found = texts->find(path);
  if (found != texts->end()) return found->second;
  if (const char* folder = std::getenv("CAFFE_KERNELS")) {
    std::ifstream file(std::string(folder) + "/" + path + ".h");
    CAFFE_CHECK(file, "CAFFE_KERNELS: cannot read ", folder, "/", path, ".h");
    std::stringstream text;
    text << file.rdbuf();
    return (*texts)[path] = text.str();
  }
  for (const EmbeddedText* row = kEmbeddedTexts; row->path; ++row) {
    if (path == row->path) return (*texts)[path] = row->text;
  }
  CAFFE_THROW("there is no kernel file kernels/", path, ".h");
}

std::string KernelTextWithIncludes(const std::string& path, std::set<std::string>* included) {
  return TextWithIncludes("kernels/" + path + ".h", KernelText(path), included);
}

std::string TextWithIncludes(const std::string& title, const std::string& body,
                             std::set<std::string>* included) {
  static const std::string begin = "#include \"", end = ".h\"";
  const auto line_directive = [&title](int number) {
    return Concat("#line ", number, " \"", title, "\"\n");
  };
  std::istringstream lines(body);
  std::string line, text = line_directive(1);
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!line.starts_with(begin)) {
      text += line + "\n";
      continue;
    }
    CAFFE_CHECK(line.size() > begin.size() + end.size() && line.ends_with(end), title, ":", number,
                ": '", line, "' is not #include \"folder/file.h\"");
    const std::string other = line.substr(begin.size(), line.size() - begin.size() - end.size());
    if (included->insert(other).second) text += KernelTextWithIncludes(other, included);
    text += line_directive(number + 1);
  }
  return text + "\n";
}

std::vector<std::string> KernelTextPaths() {
  std::vector<std::string> paths;
  for (const EmbeddedText* row = kEmbeddedTexts; row->path; ++row) paths.push_back(row->path);
  return paths;
}

std::vector<KernelSignature> ParseKernelHeads(const std::string& title, const std::string& text) {
  std::vector<KernelSignature> signatures;
  for (const Head& head : FindHeads(text)) {
    KernelSignature signature;
    signature.name = head.items[0];
    signature.spans = head.spans;
    CAFFE_CHECK(!signature.name.empty() &&
                    std::all_of(signature.name.begin(), signature.name.end(), IsWord),
                title, ": '", signature.name, "' is not a valid kernel name");
    for (size_t i = 1; i < head.items.size(); ++i) {
      signature.parameters.push_back(ParseParameter(signature.name, head.items[i]));
    }
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

std::string RewriteKernelHeads(const std::string& text,
                               const std::vector<std::string>& folded_parameters) {
  std::string out;
  size_t copied = 0;
  for (const Head& head : FindHeads(text)) {
    out += text.substr(copied, head.open - copied) + "(" + head.items[0] + ")(";
    std::string separator;
    for (size_t i = 1; i < head.items.size(); ++i) {
      const KernelParameter parameter = ParseParameter(head.items[0], head.items[i]);
      const bool folded = parameter.kind == KernelParameter::Kind::kFold &&
                          std::find(folded_parameters.begin(), folded_parameters.end(),
                                    parameter.name) != folded_parameters.end();
      if (folded) continue;
      out += separator + head.items[i];
      separator = ", ";
    }
    out += ")";
    // The lines of the head are kept, so that later line numbers stay right.
    const std::string head_text = text.substr(head.begin, head.end - head.begin);
    out += std::string(std::count(head_text.begin(), head_text.end(), '\n'), '\n');
    copied = head.end;
  }
  return out + text.substr(copied);
}

}  // namespace caffe
