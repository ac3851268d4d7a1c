#include "caffe/parallel/mpi/mpi_group.hpp"

// Without the C++ functions, which MPI has given up.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

using Clock = std::chrono::steady_clock;

void Check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  CAFFE_THROW(call, " failed: ", std::string(text, static_cast<size_t>(length)));
}

// Bytes of one call: MPI counts with int.
constexpr int64_t kMost = int64_t{1} << 28;
// A process that is stopped, or whose machine is gone, sends no beats.
constexpr std::chrono::seconds kBeat{1}, kSilence{15};

// Ranks other than 0 send beats to rank 0, and rank 0 to all of them. A beat has the number of
// collective calls that its rank has begun.
class Beats {
 public:
  void Start(MPI_Comm all, int size, int rank) {
    Check(MPI_Comm_dup(all, &comm_), "MPI_Comm_dup");
    size_ = size;
    rank_ = rank;
    heard_.assign(static_cast<size_t>(size), Clock::now());
    begun_.assign(static_cast<size_t>(size), 0);
    sends_.assign(static_cast<size_t>(size), MPI_REQUEST_NULL);
    last_ = Clock::now();
  }
  void Stop() {
    for (MPI_Request& send : sends_) {
      if (send == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&send);
      MPI_Request_free(&send);
    }
    MPI_Comm_free(&comm_);
  }
  // The peers of this rank.
  int begin() const { return rank_ == 0 ? 1 : 0; }
  int end() const { return rank_ == 0 ? size_ : 1; }

  // Sends and receives what is due. Returns the rank that has been silent for too long, or -1.
  int Exchange(int64_t begun) {
    const auto now = Clock::now();
    if (now - last_ < kBeat) return -1;
    // This process itself was stopped and received nothing.
    if (now - last_ > kSilence / 2) std::fill(heard_.begin(), heard_.end(), now);
    last_ = now;
    own_ = begun;
    for (int peer = begin(); peer < end(); ++peer) {
      int done = 1;
      if (sends_[peer] != MPI_REQUEST_NULL) {
        Check(MPI_Test(&sends_[peer], &done, MPI_STATUS_IGNORE), "MPI_Test");
      }
      if (done) {
        Check(MPI_Isend(&own_, 1, MPI_INT64_T, peer, 0, comm_, &sends_[peer]), "MPI_Isend");
      }
    }
    for (;;) {
      int there = 0;
      MPI_Status status;
      Check(MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &there, &status), "MPI_Iprobe");
      if (!there) break;
      const int peer = status.MPI_SOURCE;
      Check(MPI_Recv(&begun_[peer], 1, MPI_INT64_T, peer, 0, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      heard_[peer] = now;
    }
    for (int peer = begin(); peer < end(); ++peer) {
      if (now - heard_[peer] > kSilence) return peer;
    }
    return -1;
  }
  // The peers that have begun fewer calls.
  std::vector<int> Late(int64_t begun) const {
    std::vector<int> late;
    for (int peer = begin(); peer < end(); ++peer) {
      if (begun_[peer] < begun) late.push_back(peer);
    }
    return late;
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_ = 1, rank_ = 0;
  std::vector<Clock::time_point> heard_;
  std::vector<int64_t> begun_;
  std::vector<MPI_Request> sends_;
  Clock::time_point last_;
  int64_t own_ = 0;
};

class MpiGroup final : public HostGroup {
 public:
  MpiGroup() {
    int provided = 0, started = 0;
    Check(MPI_Initialized(&started), "MPI_Initialized");
    if (started) {  // by mpi4py
      Check(MPI_Query_thread(&provided), "MPI_Query_thread");
    } else {
      Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    }
    starts_ = !started;
    CAFFE_CHECK(provided >= MPI_THREAD_SERIALIZED, "this MPI library cannot be used by a thread ",
                "other than the first one (MPI_THREAD_SERIALIZED)");
    Check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    Check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    Check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    Check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    char host[256] = "";
    ::gethostname(host, sizeof(host) - 1);
    std::vector<char> hosts(sizeof(host) * static_cast<size_t>(size_));
    Check(MPI_Allgather(host, sizeof(host), MPI_CHAR, hosts.data(), sizeof(host), MPI_CHAR, comm_),
          "MPI_Allgather");
    for (int r = 0; r < size_; ++r) {
      const char* const name = hosts.data() + sizeof(host) * static_cast<size_t>(r);
      names_.push_back(Concat("rank ", r, " of ", size_, " (host ", name, ")"));
    }
    beats_.Start(comm_, size_, rank_);
  }
  ~MpiGroup() override {
    beats_.Stop();
    MPI_Comm_free(&comm_);
    if (starts_) MPI_Finalize();
  }
  int size() const override { return size_; }
  int rank() const override { return rank_; }

  void AllGather(char* data, int64_t bytes) override {
    InParts(bytes, [&](int64_t begin, int part) {
      if (part == bytes) {
        return Run("MPI_Iallgather", [&](MPI_Request* request) {
          return MPI_Iallgather(MPI_IN_PLACE, part, MPI_BYTE, data, part, MPI_BYTE, comm_, request);
        });
      }
      // The pieces of the ranks are further apart than their parts.
      std::vector<char> all(static_cast<size_t>(part) * static_cast<size_t>(size_));
      Run("MPI_Iallgather", [&](MPI_Request* request) {
        return MPI_Iallgather(data + rank_ * bytes + begin, part, MPI_BYTE, all.data(), part,
                              MPI_BYTE, comm_, request);
      });
      for (int r = 0; r < size_; ++r) {
        std::memcpy(data + r * bytes + begin, all.data() + static_cast<int64_t>(r) * part,
                    static_cast<size_t>(part));
      }
    });
  }
  void AllToAll(const char* from, char* to, int64_t bytes) override {
    InParts(bytes, [&](int64_t begin, int part) {
      if (part == bytes) {
        return Run("MPI_Ialltoall", [&](MPI_Request* request) {
          return MPI_Ialltoall(from, part, MPI_BYTE, to, part, MPI_BYTE, comm_, request);
        });
      }
      const size_t all = static_cast<size_t>(part) * static_cast<size_t>(size_);
      std::vector<char> sent(all), received(all);
      for (int r = 0; r < size_; ++r) {
        std::memcpy(sent.data() + static_cast<int64_t>(r) * part, from + r * bytes + begin,
                    static_cast<size_t>(part));
      }
      Run("MPI_Ialltoall", [&](MPI_Request* request) {
        return MPI_Ialltoall(sent.data(), part, MPI_BYTE, received.data(), part, MPI_BYTE, comm_,
                             request);
      });
      for (int r = 0; r < size_; ++r) {
        std::memcpy(to + r * bytes + begin, received.data() + static_cast<int64_t>(r) * part,
                    static_cast<size_t>(part));
      }
    });
  }
  void Broadcast(char* data, int64_t bytes) override {
    InParts(bytes, [&](int64_t begin, int part) {
      Run("MPI_Ibcast", [&](MPI_Request* request) {
        return MPI_Ibcast(data + begin, part, MPI_BYTE, 0, comm_, request);
      });
    });
  }
  void Look() override { Beat(); }

  void SetLastWords(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    last_words_ = text;
  }
  // Called by any thread: MPI_Abort ends the processes.
  void Abort(const std::string& why) noexcept override { End(names_[rank_] + " failed: " + why); }

 private:
  [[noreturn]] void End(const std::string& text) noexcept {
    {
      const std::lock_guard lock(mutex_);
      log::Error(text + last_words_);
    }
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
  }
  void Beat() {
    const int silent = beats_.Exchange(begun_);
    if (silent < 0) return;
    End(Concat(names_[silent], " has not answered ", names_[rank_], " for ", kSilence.count(),
               " s: its process is stopped or its machine cannot be reached"));
  }
  template <class Part> void InParts(int64_t bytes, const Part& part) {
    for (int64_t begin = 0; begin < bytes; begin += kMost) {
      part(begin, static_cast<int>(std::min(kMost, bytes - begin)));
    }
  }
  // Waits for the call, and sends beats meanwhile.
  template <class Call> void Run(const char* name, const Call& call) {
    ++begun_;
    MPI_Request request = MPI_REQUEST_NULL;
    Check(call(&request), name);
    const auto begin = Clock::now();
    for (int tries = 0;; ++tries) {
      int done = 0;
      Check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name);
      if (done) return;
      if (tries < 200) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(tries < 2000 ? 20 : 200));
      Beat();
      if (Clock::now() - begin > std::chrono::seconds(RankTimeout())) EndLate();
    }
  }
  void EndLate() {
    std::string names;
    for (const int rank : beats_.Late(begun_)) names += (names.empty() ? "" : ", ") + names_[rank];
    End(Concat(names.empty() ? "a rank" : names, " did not arrive within ", RankTimeout(),
               " s (CAFFE_RANK_TIMEOUT), while ", names_[rank_], " waits"));
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_ = 1, rank_ = 0;
  bool starts_ = true;  // MPI
  std::vector<std::string> names_;
  std::mutex mutex_;
  std::string last_words_;
  int64_t begun_ = 0;
  Beats beats_;
};

}  // namespace

std::unique_ptr<HostGroup> JoinMpi() { return std::make_unique<MpiGroup>(); }

}  // namespace caffe
