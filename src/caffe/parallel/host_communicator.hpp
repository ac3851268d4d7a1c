#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "caffe/parallel/communicator.hpp"
#include "caffe/parallel/host_group.hpp"

namespace caffe {

// Sums arrays in the memory of the host: each rank adds up a share of the elements, in the order of
// the ranks, so that results depend on nothing else. A thread does this, in the order of the calls,
// while the caller computes; arrays of devices are downloaded and uploaded again. All calls of the
// group come from that thread.
class HostCommunicator final : public Communicator {
 public:
  explicit HostCommunicator(std::unique_ptr<HostGroup> group);
  ~HostCommunicator() override;

  int size() const override { return size_; }
  int rank() const override { return rank_; }
  std::string Broadcast(const std::string& text) override;
  std::vector<std::string> AllGather(const std::string& text) override;
  void AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) override;
  void ReduceScatterSum(Device* device, DevicePtr array, int64_t count, DataType type) override;
  void AllGather(Device* device, DevicePtr array, int64_t count, DataType type) override;
  void Finish() override;
  void Abort(const std::string& why) noexcept override;
  void SetLastWords(const std::string& text) override;

  // The function is called, by the communicator's thread, when a rank has failed.
  void OnFailure(std::function<void()> function);

 private:
  using Work = std::function<void()>;

  void Enqueue(Work work);
  // Enqueue, then Finish.
  void Do(Work work);
  void Serve();
  // Enqueues work on the bytes of an array, which comes from the device and goes back there.
  void OnArray(Device* device, DevicePtr array, int64_t bytes, std::function<void(char*)> work);

  void SumOfAll(char* data, int64_t count, DataType type);
  void SumOfShare(char* data, int64_t share, DataType type);

  const std::unique_ptr<HostGroup> group_;
  const int size_, rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool busy_ = false, ends_ = false;
  std::exception_ptr error_;
  std::function<void()> on_failure_;
  // Used by the thread alone.
  std::vector<char> host_, padded_, received_;
  std::vector<float> sums_, values_;
  std::unique_ptr<Stream> stream_;
  Device* stream_device_ = nullptr;
  std::thread thread_;
};

}  // namespace caffe
