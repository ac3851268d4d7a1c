#pragma once

#include <cstdint>
#include <string>

#include "caffe/layer/term_sum.hpp"

namespace caffe {

// What a message about a wrong label says of the layer that reads it.
struct ClassLabels {
  std::string where;  // the beginning of the message: LayerBase::Where()
  int64_t classes = 0;
  int64_t inner = 1;  // labels of one item
  // The parameter that has ignore_label; empty if the layer ignores no labels.
  std::string ignore_field;
};

// Throws if a term of `sum` is invalid because its label is not the number of a class, and tells the
// label, the item, the classes and what to do. Once: the next call tells of later forwards.
void CheckClassLabels(const ClassLabels& labels, TermSum* sum);

}  // namespace caffe
