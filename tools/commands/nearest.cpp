#include "commands/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace caffe {
namespace {

// Letters to change, insert or leave out (Levenshtein), or to swap with their neighbour.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  // Of a short name most letters must be right.
  size_t distance = std::min<size_t>(3, name.size());
  for (const std::string& candidate : candidates) {
    const size_t d = EditDistance(name, candidate);
    if (d < distance) {
      distance = d;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace caffe
