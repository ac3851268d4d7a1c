#pragma once

#include <cstdint>
#include <vector>

namespace caffe {

// How often values were observed. Bin i holds the values of [Edge(i), Edge(i + 1)); the bins divide
// [-limit, limit] equally, and limit is a power of two. Values beyond the largest limit are in the
// first and the last bin.
struct Histogram {
  static constexpr int kBins = 2048;
  double limit = 0;             // 0: nothing was observed
  std::vector<int64_t> counts;  // kBins numbers
  int64_t zeros = 0;            // how many of the values in bin kBins / 2 are exactly 0

  double Edge(int bin) const { return limit * (bin - kBins / 2) / (kBins / 2); }
  int64_t total() const;
  // Counts a value. The limit doubles, and neighbouring bins unite, until the value fits.
  void Add(double value);
  // Adds the counts of another histogram.
  void Add(const Histogram& other);

 private:
  void Widen(double limit);
};

}  // namespace caffe
