#pragma once

#include <functional>
#include <string>

namespace caffe {

// What follows the forward and backward of an iteration of training: a solver's update, for example.
struct TailAction {
  std::string name;
  std::function<void()> run;
  // Enqueues the same work in each iteration, and does nothing else: a device may record it with the
  // work of the net. If false, it may do anything.
  bool replays = true;
};

}  // namespace caffe
