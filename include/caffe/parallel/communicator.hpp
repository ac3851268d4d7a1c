#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// Another rank has failed; the text names it. The errors of the ranks that stop for this reason are
// not the cause.
class RankFailure : public Error {
 public:
  using Error::Error;
};

// The connection between the replicas of a net that train together. Each replica has a communicator
// of its own, with its rank. All ranks call the same functions in the same order. After an error of
// one rank, the calls of the others throw an error that names it, or their processes end.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  // The text that rank 0 gives. Waits for rank 0 if that runs elsewhere; ranks of one thread call
  // this in their order.
  virtual std::string Broadcast(const std::string& text) = 0;
  // The texts of all ranks, in their order. Waits for all of them.
  virtual std::vector<std::string> AllGather(const std::string& text) = 0;

  // Adds the arrays of all ranks, element by element, and writes the sum to all of them. It only
  // enqueues the work, which begins after that of the calling thread's stream; what follows must
  // call Finish first. Notes the buffers that it uses, and their extents. The type is float,
  // double, half or bfloat16.
  virtual void AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) = 0;
  // The same in two halves. `count` is a multiple of size(); rank r has the elements from r times
  // count / size() on. After the first call they hold the sum, and the others are undefined; the
  // second one gives all ranks all elements.
  virtual void ReduceScatterSum(Device* device, DevicePtr array, int64_t count, DataType type) = 0;
  virtual void AllGather(Device* device, DevicePtr array, int64_t count, DataType type) = 0;
  // The calling thread's stream goes on after the work that was enqueued above. Communicators
  // between devices enqueue on that stream, so that this does nothing and a Capture can record
  // their calls; those through the host wait here, and cannot be recorded.
  virtual void Finish() = 0;

  // Ends the calls of the other ranks: this one has failed. In a job of several processes it ends
  // all of them, and does not return.
  virtual void Abort(const std::string& why) noexcept = 0;
  // A text that Abort adds to the error: how to resume.
  virtual void SetLastWords(const std::string& text) = 0;
};

// Sums of numbers of all ranks, in their order; all of them have equally many.
std::vector<double> SumOverRanks(Communicator* communicator, const std::vector<double>& own);

}  // namespace caffe
