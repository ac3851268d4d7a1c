#pragma once

#include "commands/options.hpp"

namespace caffe {

class Net;

// Copies the files of -weights into the net, as -strict and -map_weights say.
void CopyWeights(const Options& options, Net* net);

}  // namespace caffe
