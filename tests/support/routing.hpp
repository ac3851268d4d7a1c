#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace caffe {

// A routing as MOERoute defines it, computed by loops over items.
struct Routing {
  std::vector<double> observed, expected, weights, slots, rows, offsets;
};

struct RoutingSettings {
  int64_t items = 0, experts = 0, select = 0;
  bool all = false;          // full_forward
  int64_t capacity = 0;      // 0: no limit
  std::vector<double> bias;  // empty: 0
  bool normalize = true;     // normalize_weights
};

inline Routing Route(const RoutingSettings& s, const std::vector<double>& p) {
  Routing out;
  std::vector<std::vector<int64_t>> pairs(s.experts);
  std::vector<double> totals(s.experts);
  for (int64_t n = 0; n < s.items; ++n) {
    std::vector<int64_t> order(s.experts);
    for (int64_t e = 0; e < s.experts; ++e) order[e] = e;
    const auto key = [&](int64_t e) {
      return p[n * s.experts + e] + (s.bias.empty() ? 0 : s.bias[e]);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return key(a) > key(b); });
    double sum = 0;
    for (int64_t k = 0; k < s.select; ++k) sum += p[n * s.experts + order[k]];
    for (int64_t k = 0; k < s.select; ++k) {
      out.weights.push_back(p[n * s.experts + order[k]] / (s.normalize ? sum : 1));
      out.slots.push_back(-1);
      ++totals[order[k]];
      const bool full =
          s.capacity > 0 && static_cast<int64_t>(pairs[order[k]].size()) >= s.capacity;
      if (full) out.weights.back() = 0;
      if (!full) pairs[order[k]].push_back(n * s.select + k);
    }
  }
  out.rows.assign(s.items * (s.all ? s.experts : s.select), -1);
  int64_t row = 0;
  for (int64_t e = 0; e < s.experts; ++e) {
    out.offsets.push_back(static_cast<double>(s.all ? e * s.items : row));
    for (const int64_t pair : pairs[e]) {
      const int64_t at = s.all ? e * s.items + pair / s.select : row++;
      out.rows[at] = static_cast<double>(pair);
      out.slots[pair] = static_cast<double>(at);
    }
  }
  out.offsets.push_back(static_cast<double>(s.all ? s.experts * s.items : row));
  for (int64_t i = 0; i < s.items * s.experts; ++i) {
    out.observed.push_back(totals[i % s.experts] / static_cast<double>(s.items));
    out.expected.push_back(static_cast<double>(s.select) / static_cast<double>(s.experts));
  }
  return out;
}

}  // namespace caffe
