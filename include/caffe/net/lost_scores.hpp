#pragma once

#include <string>

namespace caffe {

class Net;

// A warning that names a layer whose scores were NaN or infinity (ScoreReport) in the forward
// passes since the last call; empty if there was none.
std::string TakeLostScores(const Net& net);

}  // namespace caffe
