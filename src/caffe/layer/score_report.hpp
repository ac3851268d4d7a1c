#pragma once

namespace caffe {

// A layer that ranks scores.
class ScoreReport {
 public:
  virtual ~ScoreReport() = default;
  // Whether a score was NaN or infinity in a forward pass since the last call. Waits for the
  // device.
  virtual bool TakeLostScores() = 0;
};

}  // namespace caffe
