#include "caffe/core/repeated_names.hpp"

#include <map>
#include <set>

namespace caffe {

std::vector<std::string> UniqueNames(const std::vector<std::string>& names) {
  std::set<std::string> used(names.begin(), names.end());
  std::map<std::string, int> counts;
  std::vector<std::string> unique;
  for (const std::string& name : names) {
    int& count = counts[name];
    std::string found = name;
    if (++count > 1) {
      while (!used.insert(found = name + "#" + std::to_string(count)).second) ++count;
    }
    unique.push_back(std::move(found));
  }
  return unique;
}

std::vector<int> MatchInOrder(const std::vector<std::string>& names,
                              const std::vector<std::string>& others) {
  std::map<std::string, std::vector<int>> positions;
  for (size_t i = 0; i < others.size(); ++i) positions[others[i]].push_back(static_cast<int>(i));
  std::map<std::string, size_t> counts;
  std::vector<int> matches;
  for (const std::string& name : names) {
    const size_t count = counts[name]++;
    const auto found = positions.find(name);
    const bool known = found != positions.end() && count < found->second.size();
    matches.push_back(known ? found->second[count] : -1);
  }
  return matches;
}

}  // namespace caffe
