#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "caffe/parallel/host_communicator.hpp"
#include "caffe/parallel/nccl_api.hpp"

namespace caffe {

// Sums arrays between CUDA devices by NCCL, on the calling thread's stream. The rest goes through
// the host.
class NcclCommunicator final : public Communicator {
 public:
  // All ranks make theirs at the same time. Their devices differ. `host` must outlive this object,
  // unless it is also given as `owned`.
  NcclCommunicator(HostCommunicator* host, Device* device,
                   std::unique_ptr<HostCommunicator> owned = nullptr);
  ~NcclCommunicator() override;

  int size() const override { return host_->size(); }
  int rank() const override { return host_->rank(); }
  std::string Broadcast(const std::string& text) override { return host_->Broadcast(text); }
  std::vector<std::string> AllGather(const std::string& text) override {
    return host_->AllGather(text);
  }
  void AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) override;
  void ReduceScatterSum(Device* device, DevicePtr array, int64_t count, DataType type) override;
  void AllGather(Device* device, DevicePtr array, int64_t count, DataType type) override;
  void Finish() override {}
  void Abort(const std::string& why) noexcept override;
  void SetLastWords(const std::string& text) override { host_->SetLastWords(text); }

 private:
  // Returns the stream.
  void* Begin(Device* device, DevicePtr array, int64_t count, DataType type) const;
  // Ends calls that wait for a rank that has failed. Afterwards nothing can be summed.
  void EndCalls() noexcept;

  const nccl::Api& api_;
  const std::unique_ptr<HostCommunicator> owned_;
  HostCommunicator* const host_;
  Device* const device_;
  std::mutex mutex_;
  nccl::Comm comm_ = nullptr;
  bool ended_ = false;
};

}  // namespace caffe
