#pragma once

#include "support/scoped_variable.hpp"

namespace caffe {

// Nets whose first forward runs during its lifetime never replay graphs.
class GraphsOff : ScopedVariable {
 public:
  GraphsOff() : ScopedVariable("CAFFE_GRAPHS", "off") {}
};

}  // namespace caffe
