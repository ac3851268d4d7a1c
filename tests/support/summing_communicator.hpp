#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/graph.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/parallel/communicator.hpp"

namespace caffe {

// The communicators of replicas that one thread trains on one device. What the last rank enqueues
// sums the arrays of all ranks, in their order.
class SummingGroup {
 public:
  explicit SummingGroup(int size) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(this, rank));
  }
  Communicator* rank(int index) { return ranks_[index].get(); }
  int sums = 0;  // that were enqueued

 private:
  class Rank final : public Communicator {
   public:
    Rank(SummingGroup* group, int rank) : group_(group), rank_(rank) {}
    int size() const override { return static_cast<int>(group_->ranks_.size()); }
    int rank() const override { return rank_; }
    std::string Broadcast(const std::string& text) override {
      if (rank_ == 0) group_->texts_.push_back(text);
      CAFFE_CHECK(texts_ < group_->texts_.size(), "the ranks call in their order");
      return group_->texts_[texts_++];
    }
    // Later ranks have not called: those of the caller in their place.
    std::vector<std::string> AllGather(const std::string& text) override {
      return std::vector<std::string>(static_cast<size_t>(size()), text);
    }
    void AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) override {
      group_->Sum(rank_, device, {array, count, device->current_stream(), nullptr}, type);
    }
    void ReduceScatterSum(Device*, DevicePtr, int64_t, DataType) override {
      CAFFE_THROW("not of one thread");
    }
    void AllGather(Device*, DevicePtr, int64_t, DataType) override {
      CAFFE_THROW("not of one thread");
    }
    void Finish() override {}
    void Abort(const std::string&) noexcept override {}
    void SetLastWords(const std::string&) override {}

   private:
    SummingGroup* group_;
    int rank_;
    size_t texts_ = 0;  // that it has got
  };
  struct Given {
    DevicePtr array;
    int64_t count;
    Stream* stream;
    std::shared_ptr<Event> ready;
  };

  void Sum(int rank, Device* device, Given given, DataType type) {
    if (rank == 0) given_.clear();
    CAFFE_CHECK(static_cast<int>(given_.size()) == rank &&
                    given.count == (rank > 0 ? given_[0].count : given.count),
                "the ranks call in their order");
    given.ready = given.stream->Record(false);
    given_.push_back(given);
    if (given_.size() < ranks_.size()) return;
    for (const Given& one : given_) {
      if (one.stream != given.stream) given.stream->WaitFor(*one.ready);
    }
    if (!kernel_ || device_ != device || type_ != type) {
      device_ = device;
      type_ = type;
      kernel_ = ProgramBuilder(device, "sum")
                    .Types(type)
                    .Body("blas/accumulate")
                    .Build()
                    ->CreateKernel("accumulate_parts");
    }
    const int64_t bytes = given.count * static_cast<int64_t>(type.bytes());
    for (const Given& one : given_) Capture::NoteExtent(device, one.array, bytes);
    const DevicePtr sum = given_[0].array;
    for (size_t r = 1; r < given_.size(); ++r) {
      kernel_->Launch(given.count, {given.count, 1, given_[r].array.ReadOnly(), sum});
    }
    for (size_t r = 1; r < given_.size(); ++r) device->Copy(given_[r].array, sum, bytes);
    for (const Given& one : given_) {
      if (one.stream != given.stream) one.stream->WaitFor(*given.stream->Record(false));
    }
    given_.clear();
    ++sums;
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Given> given_;        // of the ranks that have called
  std::vector<std::string> texts_;  // of rank 0
  Device* device_ = nullptr;
  DataType type_ = kFloat;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe
