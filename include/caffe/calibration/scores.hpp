#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caffe/calibration/batch.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

// The answer of a net at a position.
struct Answer {
  int best = -1;       // the first class with the largest score; -1 if a score is NaN
  bool alone = false;  // no other class has that score
};

// The scores of classes of a net, and their labels.
struct Scores {
  std::string blob;    // empty: none
  std::string labels;  // a blob; empty: none
  std::string why;     // there are none
  std::optional<int> ignore_label;
  bool ties_above = false;  // a score equal to that of the label ranks above it, as in Accuracy
  int layer = -1;           // that says where the classes are; -1: they are on `axis`
  int axis = 1;

  bool Right(const Answer& answer, float label) const {
    return static_cast<float>(answer.best) == label && (answer.alone || !ties_above);
  }
};

// T and N of the first recurrent layer, whose bottom 0 has shape (T, N, …).
std::optional<std::pair<int64_t, int64_t>> Sequences(const Net& net);

// `wanted`, or, if it is empty, the scores that count: those of the last loss or Accuracy with
// labels of classes; otherwise the top of the last Softmax, or the bottom of the last ArgMax, that
// makes an output; otherwise the last output with several elements along axis 1 (axis 2 if axes 0
// and 1 are time steps and sequences). There are none if the net has only losses of other kinds.
Scores FindScores(const Net& net, const std::string& wanted);

// Positions of scores [outer, classes, inner] after a forward, of which the first count.
struct Positions {
  int64_t classes = 0, inner = 1;
  int64_t count = 0;     // that count
  int64_t per_item = 1;  // 1: an item is a position
};

// `items`: how many items of the batch count.
Positions PositionsOf(const Net& net, const Scores& scores, int64_t items);

// At each position that counts.
std::vector<Answer> AnswersOf(const Net& net, const Scores& scores, const Positions& positions);

// The label that stands for "unknown" where the caller gives labels.
constexpr int kUnknownLabel = -1;

// The labels of the positions that count: those of the batch, or those in the blob of the net after
// a forward. Empty: there are none. Throws if they do not fit the scores: their number, and values
// that are neither a class, nor the label to ignore, nor, if the caller gives them, kUnknownLabel.
std::vector<float> LabelsOf(const Net& net, const Scores& scores, const Positions& positions,
                            const Batch& batch, int64_t index);

}  // namespace caffe
