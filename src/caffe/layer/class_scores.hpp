#pragma once

#include <cstdint>
#include <optional>

namespace caffe {

// Scores of classes, [outer, classes, inner]: a position is an item, or a pixel or time step of
// one.
struct ClassScores {
  int64_t classes = 0;
  int64_t inner = 1;
  // Bottom 1 has a label for each position, in the order [outer, inner].
  bool labels = false;
  // Positions with this label do not count.
  std::optional<int> ignore_label = std::nullopt;
  // A score equal to that of the label ranks above it.
  bool ties_above = false;
};

// A layer that reads scores of classes.
class HasClassScores {
 public:
  virtual ~HasClassScores() = default;
  // Bottom 0 for its current shape; none if it does not hold classes.
  virtual std::optional<ClassScores> class_scores() const = 0;
};

}  // namespace caffe
