#include "caffe/parallel/nccl_communicator.hpp"

#include <cstring>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

int NcclType(DataType type) {
  if (type == kFloat) return nccl::kFloat;
  if (type == kDouble) return nccl::kDouble;
  if (type == kHalf) return nccl::kHalf;
  CAFFE_CHECK(type == kBfloat16, "NCCL cannot sum ", type.name());
  return nccl::kBfloat16;
}

const nccl::Api& Needed() {
  std::string why;
  const nccl::Api* const api = nccl::Find(&why);
  CAFFE_CHECK(api, "NCCL was not found: ", why);
  return *api;
}

}  // namespace

NcclCommunicator::NcclCommunicator(HostCommunicator* host, Device* device,
                                   std::unique_ptr<HostCommunicator> owned)
    : api_(Needed()), owned_(std::move(owned)), host_(host), device_(device) {
  nccl::UniqueId id{};
  if (rank() == 0) api_.Check(api_.GetUniqueId(&id), "ncclGetUniqueId");
  const std::string bytes = host_->Broadcast(std::string(id.bytes, sizeof(id.bytes)));
  std::memcpy(id.bytes, bytes.data(), sizeof(id.bytes));
  device_->native_stream();  // makes the device's context current
  api_.Check(api_.CommInitRank(&comm_, size(), id, rank()), "ncclCommInitRank");
  host_->OnFailure([this] { EndCalls(); });
  int version = 0;
  api_.GetVersion(&version);
  if (rank() == 0) log::Info(Concat("NCCL ", version, " sums gradients of ", size(), " GPUs"));
}

NcclCommunicator::~NcclCommunicator() {
  host_->OnFailure(nullptr);
  if (!comm_ || ended_) return;
  device_->native_stream();
  if (const int status = api_.CommDestroy(comm_); status != nccl::kSuccess) {
    log::Error(Concat("ncclCommDestroy failed: ", api_.GetErrorString(status)));
  }
}

void NcclCommunicator::EndCalls() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  api_.CommAbort(comm_);
}

void NcclCommunicator::Abort(const std::string& why) noexcept {
  host_->Abort(why);
  EndCalls();
}

void* NcclCommunicator::Begin(Device* device, DevicePtr array, int64_t count, DataType type) const {
  CAFFE_CHECK(device == device_, "the communicator of rank ", rank(), " is for ",
              device_->info().id, ", but the net is on ", device->info().id);
  CAFFE_CHECK(!ended_, "a rank has failed, so that nothing can be summed");
  device->NoteUse({array});
  Capture::NoteExtent(device, array, count * static_cast<int64_t>(type.bytes()));
  device->CountLibraryCall();
  return device->native_stream();
}

void NcclCommunicator::AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) {
  void* const stream = Begin(device, array, count, type);
  char* const data = array.writable_address();
  api_.Check(api_.AllReduce(data, data, static_cast<size_t>(count), NcclType(type), nccl::kSum,
                            comm_, stream),
             "ncclAllReduce");
}

void NcclCommunicator::ReduceScatterSum(Device* device, DevicePtr array, int64_t count,
                                        DataType type) {
  CAFFE_CHECK(count % size() == 0, count, " elements are not shares of ", size(), " ranks");
  void* const stream = Begin(device, array, count, type);
  char* const data = array.writable_address();
  const int64_t share = count / size();
  api_.Check(
      api_.ReduceScatter(data, data + rank() * share * static_cast<int64_t>(type.bytes()),
                         static_cast<size_t>(share), NcclType(type), nccl::kSum, comm_, stream),
      "ncclReduceScatter");
}

void NcclCommunicator::AllGather(Device* device, DevicePtr array, int64_t count, DataType type) {
  CAFFE_CHECK(count % size() == 0, count, " elements are not shares of ", size(), " ranks");
  void* const stream = Begin(device, array, count, type);
  char* const data = array.writable_address();
  const int64_t share = count / size();
  api_.Check(api_.AllGather(data + rank() * share * static_cast<int64_t>(type.bytes()), data,
                            static_cast<size_t>(share), NcclType(type), comm_, stream),
             "ncclAllGather");
}

}  // namespace caffe
