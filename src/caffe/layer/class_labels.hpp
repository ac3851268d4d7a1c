#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caffe/layer/term_sum.hpp"

namespace caffe {

// The description of a layer's labels for a message about a wrong one.
struct ClassLabels {
  std::string where;  // the beginning of the message: LayerBase::Where()
  int64_t classes = 0;
  int64_t inner = 1;  // labels of one item
  // The parameter that has ignore_label; empty if the layer does not ignore labels.
  std::string ignore_field;
};

// Throws if label `value` at `index` of all labels is not a class. The message has the label, the
// item, the number of classes and the cure.
void CheckClassLabel(const ClassLabels& labels, double value, int64_t index);

// Throws if a term of `sum` is invalid because its label is not a class. It is thrown once: the
// next call reports later forwards.
void CheckClassLabels(const ClassLabels& labels, TermSum* sum);

// A layer that makes up values and rounds those that are read as labels of classes.
class ClassSource {
 public:
  virtual ~ClassSource() = default;
  // Layers read these tops as labels of classes, and as nothing else. Called once, after SetUp.
  virtual void SetClassTops(const std::vector<int>& tops, const BlobVec& top) = 0;
};

}  // namespace caffe
