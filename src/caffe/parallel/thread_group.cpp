#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "caffe/core/error.hpp"
#include "caffe/parallel/communicator.hpp"
#include "caffe/parallel/host_group.hpp"

namespace caffe {
namespace {

// The state that the threads share.
class Meeting {
 public:
  explicit Meeting(std::vector<std::string> names)
      : names_(std::move(names)), arrived_(names_.size(), false), data(names_.size()) {}

  int size() const { return static_cast<int>(names_.size()); }

  // Returns when all ranks have called this.
  void Meet(int rank) {
    std::unique_lock lock(mutex_);
    CheckLocked();
    arrived_[rank] = true;
    if (std::all_of(arrived_.begin(), arrived_.end(), [](bool one) { return one; })) {
      std::fill(arrived_.begin(), arrived_.end(), false);
      ++meetings_;
      changed_.notify_all();
      return;
    }
    const int64_t meeting = meetings_;
    const auto over = [&] { return meetings_ != meeting || !failure_.empty(); };
    if (!changed_.wait_for(lock, std::chrono::seconds(RankTimeout()), over)) {
      std::string late;
      for (size_t i = 0; i < arrived_.size(); ++i) {
        if (!arrived_[i]) late += (late.empty() ? "" : " and ") + names_[i];
      }
      AbortLocked(Concat(late, " did not arrive within ", RankTimeout(),
                         " s (CAFFE_RANK_TIMEOUT), while ", names_[rank], " waits"));
    }
    if (meetings_ == meeting) CheckLocked();
  }

  void Check() {
    const std::lock_guard lock(mutex_);
    CheckLocked();
  }

  void Abort(int rank, const std::string& why) {
    const std::lock_guard lock(mutex_);
    AbortLocked(Concat(names_[rank], " failed: ", why));
  }

 private:
  void CheckLocked() const {
    if (!failure_.empty()) throw RankFailure(failure_);
  }
  void AbortLocked(const std::string& failure) {
    if (failure_.empty()) failure_ = failure;
    changed_.notify_all();
  }

  const std::vector<std::string> names_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> arrived_;
  int64_t meetings_ = 0;
  std::string failure_;  // of the first rank that failed

 public:
  std::vector<const char*> data;  // of each rank, between two meetings
};

class ThreadGroup final : public HostGroup {
 public:
  ThreadGroup(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  int size() const override { return meeting_->size(); }
  int rank() const override { return rank_; }

  void AllGather(char* data, int64_t bytes) override {
    Share(data, [&] {
      for (int r = 0; r < size(); ++r) {
        if (r != rank_) Copy(data + r * bytes, meeting_->data[r] + r * bytes, bytes);
      }
    });
  }
  void AllToAll(const char* from, char* to, int64_t bytes) override {
    Share(from, [&] {
      for (int r = 0; r < size(); ++r)
        Copy(to + r * bytes, meeting_->data[r] + rank_ * bytes, bytes);
    });
  }
  void Broadcast(char* data, int64_t bytes) override {
    Share(data, [&] {
      if (rank_ != 0) Copy(data, meeting_->data[0], bytes);
    });
  }
  void Look() override { meeting_->Check(); }
  void Abort(const std::string& why) noexcept override { meeting_->Abort(rank_, why); }

 private:
  static void Copy(char* to, const char* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  // Between the meetings the other ranks may read `data`.
  template <class Work> void Share(const char* data, const Work& work) {
    meeting_->data[rank_] = data;
    meeting_->Meet(rank_);
    work();
    meeting_->Meet(rank_);
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<HostGroup>> MakeThreadGroups(const std::vector<std::string>& names) {
  const auto meeting = std::make_shared<Meeting>(names);
  std::vector<std::unique_ptr<HostGroup>> groups;
  for (int rank = 0; rank < meeting->size(); ++rank) {
    groups.push_back(std::make_unique<ThreadGroup>(meeting, rank));
  }
  return groups;
}

}  // namespace caffe
