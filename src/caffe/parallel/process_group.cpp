#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "caffe/core/error.hpp"
#include "caffe/parallel/communicator.hpp"
#include "caffe/parallel/host_group.hpp"

namespace caffe {
namespace {

constexpr int kMostRanks = 1024;
constexpr int64_t kWindow = int64_t{1} << 20;  // bytes of each rank, for its data

// The beginning of the shared memory. Zeros are its first state.
struct Shared {
  std::atomic<int64_t> meetings[kMostRanks];  // that each rank has begun
  std::atomic<int64_t> process[kMostRanks];
  std::atomic<int> failed;  // 1: a rank writes `failure`, 2: it is there
  char failure[4096];
};
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Whether the process has ended, also if its parent has not asked for its status.
bool HasEnded(int64_t process) {
  if (::kill(static_cast<pid_t>(process), 0) != 0) return errno == ESRCH;
  std::ifstream file(Concat("/proc/", process, "/stat"));
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t name = text.rfind(')');
  return name != text.npos && name + 2 < text.size() &&
         (text[name + 2] == 'Z' || text[name + 2] == 'X');
}

class ProcessGroup final : public HostGroup {
 public:
  ProcessGroup(const std::string& name, int size, int rank)
      : size_(size), rank_(rank), bytes_(static_cast<size_t>(kHead + size * kWindow)) {
    const std::string path = "/caffe-" + name;
    const int file = ::shm_open(path.c_str(), O_RDWR | O_CREAT, 0600);
    CAFFE_CHECK(file >= 0, "shm_open ", path, ": ", std::strerror(errno));
    const bool sized = ::ftruncate(file, static_cast<off_t>(bytes_)) == 0;
    void* const memory =
        sized ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    const int error = errno;
    ::close(file);
    CAFFE_CHECK(memory != MAP_FAILED, bytes_, " bytes of shared memory for ", size,
                " ranks: ", std::strerror(error));
    shared_ = static_cast<Shared*>(memory);
    shared_->process[rank_] = ::getpid();
    try {
      Meet();  // all of them have opened it
    } catch (...) {
      if (rank_ == 0) ::shm_unlink(path.c_str());
      ::munmap(shared_, bytes_);
      throw;
    }
    if (rank_ == 0) ::shm_unlink(path.c_str());
  }
  ~ProcessGroup() override { ::munmap(shared_, bytes_); }
  int size() const override { return size_; }
  int rank() const override { return rank_; }

  void AllGather(char* data, int64_t bytes) override {
    for (int64_t begin = 0; begin < bytes; begin += kWindow) {
      const auto part = static_cast<size_t>(std::min(kWindow, bytes - begin));
      std::memcpy(Window(rank_), data + rank_ * bytes + begin, part);
      Meet();
      for (int r = 0; r < size_; ++r) {
        if (r != rank_) std::memcpy(data + r * bytes + begin, Window(r), part);
      }
      Meet();
    }
  }
  void AllToAll(const char* from, char* to, int64_t bytes) override {
    const int64_t most = kWindow / size_;
    for (int64_t begin = 0; begin < bytes; begin += most) {
      const auto part = static_cast<size_t>(std::min(most, bytes - begin));
      for (int r = 0; r < size_; ++r) {
        std::memcpy(Window(rank_) + r * most, from + r * bytes + begin, part);
      }
      Meet();
      for (int r = 0; r < size_; ++r) {
        std::memcpy(to + r * bytes + begin, Window(r) + rank_ * most, part);
      }
      Meet();
    }
  }
  void Broadcast(char* data, int64_t bytes) override {
    for (int64_t begin = 0; begin < bytes; begin += kWindow) {
      const auto part = static_cast<size_t>(std::min(kWindow, bytes - begin));
      if (rank_ == 0) std::memcpy(Window(0), data + begin, part);
      Meet();
      if (rank_ != 0) std::memcpy(data + begin, Window(0), part);
      Meet();
    }
  }
  void Look() override {
    if (shared_->failed == 2) throw RankFailure(shared_->failure);
    for (int r = 0; r < size_; ++r) {
      const int64_t process = shared_->process[r];
      // A rank that has left before it failed is missed in the next meeting.
      if (r == rank_ || process == 0 || !HasEnded(process)) continue;
      if (shared_->meetings[r] < shared_->meetings[rank_]) {
        Fail(Concat(Name(r), ": its process ", process, " has ended"));
      }
    }
  }
  void Abort(const std::string& why) noexcept override {
    Write(Concat(Name(rank_), " failed: ", why));
  }

 private:
  static constexpr int64_t kHead = (sizeof(Shared) + 4095) / 4096 * 4096;

  std::string Name(int rank) const { return Concat("rank ", rank, " of ", size_); }
  char* Window(int rank) const { return reinterpret_cast<char*>(shared_) + kHead + rank * kWindow; }
  void Write(const std::string& failure) noexcept {
    int none = 0;
    if (!shared_->failed.compare_exchange_strong(none, 1)) return;
    const size_t length = std::min(failure.size(), sizeof(shared_->failure) - 1);
    std::memcpy(shared_->failure, failure.data(), length);
    shared_->failed = 2;
  }
  [[noreturn]] void Fail(const std::string& failure) {
    Write(failure);
    throw RankFailure(failure);
  }
  int Late(int64_t meeting) const {
    for (int r = 0; r < size_; ++r) {
      if (shared_->meetings[r] < meeting) return r;
    }
    return -1;
  }
  // Returns when all ranks have called this.
  void Meet() {
    const int64_t meeting = ++shared_->meetings[rank_];
    const auto begin = std::chrono::steady_clock::now();
    auto looked = begin;
    for (int tries = 0;; ++tries) {
      const int late = Late(meeting);
      if (late < 0) return;
      if (tries < 100) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(tries < 1000 ? 20 : 200));
      const auto now = std::chrono::steady_clock::now();
      if (now - looked < std::chrono::milliseconds(200)) continue;
      looked = now;
      Look();
      if (now - begin > std::chrono::seconds(RankTimeout())) {
        Fail(Concat(Name(late), " did not arrive within ", RankTimeout(),
                    " s (CAFFE_RANK_TIMEOUT), while ", Name(rank_), " waits"));
      }
    }
  }

  const int size_, rank_;
  const size_t bytes_;
  Shared* shared_ = nullptr;
};

}  // namespace

std::unique_ptr<HostGroup> JoinProcessGroup(const std::string& name, int size, int rank) {
  CAFFE_CHECK(size > 0 && size <= kMostRanks && rank >= 0 && rank < size, "rank ", rank, " of ",
              size, ": ranks are from 0 on, at most ", kMostRanks);
  return std::make_unique<ProcessGroup>(name, size, rank);
}

}  // namespace caffe
