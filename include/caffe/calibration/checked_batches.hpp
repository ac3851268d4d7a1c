#pragma once

#include "caffe/calibration/steps.hpp"

namespace caffe {

// The batches of a reader, checked as net.forward checks its inputs.
class CheckedBatches {
 public:
  // The net and the reader must outlive this.
  CheckedBatches(const FloatNet& net, const BatchReader& read, const QuantizeOptions& options)
      : net_(net), read_(read), options_(options) {}
  bool Read(int64_t index, Batch* batch);
  // Calls the function for those of the batches [first, end) that have items, shows the progress of
  // `what` after each, and returns how many batches there are. `all`: how many there should be, for
  // progress.
  int64_t ForEach(const char* what, int64_t first, int64_t end, int64_t all,
                  const std::function<void(int64_t index, const Batch& batch)>& function);
  // So many of them, or fewer.
  std::vector<Batch> First(size_t count, int64_t first, int64_t end);

 private:
  // Throws if the net cannot have images of another height and width, as those of the batch are.
  void CheckOtherSizes(const Batch& batch);

  const FloatNet& net_;
  const BatchReader& read_;
  const QuantizeOptions& options_;
  bool takes_other_sizes_ = false;  // CheckOtherSizes has found it out
};

}  // namespace caffe
