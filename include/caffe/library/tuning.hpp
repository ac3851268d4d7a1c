#pragma once

#include <string>
#include <vector>

namespace caffe {

// Libraries that have several algorithms for an operation choose one by measuring them on the
// device. The result is kept in the process and in the program cache, so that an operation is
// measured once for each device, driver and version of the library.
//
// By default a library measures few algorithms, for some tens of milliseconds. While a
// TuneExhaustively exists, it measures all of them and ignores results of earlier processes.
class TuneExhaustively {
 public:
  TuneExhaustively();
  ~TuneExhaustively();
  TuneExhaustively(const TuneExhaustively&) = delete;
  TuneExhaustively& operator=(const TuneExhaustively&) = delete;
};

// The algorithm that a library uses for an operation.
struct TunedChoice {
  std::string device, library;
  std::string operation;      // "forward half 8x3x227x227 -> 96 11x11/4 group 1"
  std::string configuration;  // "fused engine 53"
  double milliseconds = 0;    // as measured when it was chosen
  int measured = 0;  // the number of algorithms that were measured; 0: taken from the cache
};

// The choices of this process, in the order in which they were made.
std::vector<TunedChoice> TunedChoices();

}  // namespace caffe
