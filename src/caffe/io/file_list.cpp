#include "caffe/io/file_list.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace caffe {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error);
}

std::string WithoutBlanks(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// The end of the longest name that begins here and exists; without one, that of the text before the
// next comma.
size_t EndOfName(const std::string& list, size_t begin) {
  constexpr size_t kNone = std::string::npos;
  for (size_t end = list.size(); end != kNone && end > begin; end = list.rfind(',', end - 1)) {
    const std::string name = list.substr(begin, end - begin);
    if (Exists(name) || Exists(WithoutBlanks(name))) return end;
  }
  return std::min(list.find(',', begin), list.size());
}

}  // namespace

std::vector<std::string> FilesInList(const std::string& list) {
  std::vector<std::string> files;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = EndOfName(list, begin);
    const std::string name = list.substr(begin, end - begin);
    const std::string file = Exists(name) ? name : WithoutBlanks(name);
    if (!file.empty()) files.push_back(file);
    begin = end + 1;
  }
  return files;
}

}  // namespace caffe
