#pragma once

#include "caffe/parallel/communicator.hpp"

namespace caffe {

// A layer whose result depends on statistics of the batch.
class HasStatistics {
 public:
  virtual ~HasStatistics() = default;
  // From now on the statistics are those of the batches of all ranks; null: of its own batch.
  virtual void JoinStatistics(Communicator* communicator) = 0;
};

}  // namespace caffe
