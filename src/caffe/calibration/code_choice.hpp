#pragma once

#include <cstdint>
#include <vector>

namespace caffe {

// Choices between the codes above and below real values w, so that d' G d is small, where d is the
// difference of the codes and w. G is symmetric and positive semidefinite.
class CodeChoice {
 public:
  // `gram` is G, [size, size].
  CodeChoice(std::vector<double> gram, int64_t size);

  // The codes of w, which is in units of codes, within [-codes, codes]. Writes d' G d of the
  // nearest codes and of the result, which is never larger.
  std::vector<double> Choose(const std::vector<double>& w, double codes, double* nearest,
                             double* chosen) const;

 private:
  void Factor();
  // Rounds from the last value to the first; see WeightRounding.
  std::vector<double> Sequential(const std::vector<double>& w, double codes) const;
  // Changes single codes to the other one as long as that lowers d' G d; returns it, and writes
  // what it was before.
  double Improve(const std::vector<double>& w, double codes, std::vector<double>* q,
                 double* before) const;

  int64_t size_;
  std::vector<double> gram_;
  std::vector<double> factor_;  // row j is column j of R, with G + a small diagonal = R' R
};

}  // namespace caffe
