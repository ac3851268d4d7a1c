#pragma once

#include <cstdlib>

namespace caffe {

// Nets whose first forward runs during its lifetime never replay graphs.
class GraphsOff {
 public:
  GraphsOff() { setenv("CAFFE_GRAPHS", "off", 1); }
  ~GraphsOff() { unsetenv("CAFFE_GRAPHS"); }
  GraphsOff(const GraphsOff&) = delete;
  GraphsOff& operator=(const GraphsOff&) = delete;
};

}  // namespace caffe
