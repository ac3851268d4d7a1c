#include "caffe/core/near_name.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace caffe {
namespace {

bool SameLetter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Levenshtein's distance with transpositions of neighbours (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {above[j] + 1, row[j - 1] + 1, above[j - 1] + (SameLetter(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && SameLetter(a[i - 1], b[j - 2]) && SameLetter(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

}  // namespace

std::string NearName(std::string_view name, std::span<const std::string> candidates) {
  size_t most = name.size() < 3 ? 0 : std::clamp<size_t>(name.size() / 4, 1, 3);
  std::string best;
  for (const std::string& candidate : candidates) {
    // The distance is at least the difference of the lengths.
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) > most) {
      continue;
    }
    const size_t distance = EditDistance(name, candidate);
    if (distance < most || (distance == most && best.empty())) {
      most = distance;
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = NearName(name, candidates);
  return near.empty() ? "" : "; did you mean " + near + "?";
}

}  // namespace caffe
