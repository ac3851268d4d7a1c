#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace caffe {

// Moves bytes between ranks through the memory of the host: the part of a HostCommunicator that
// differs between threads and processes. All ranks call the same functions in the same order.
class HostGroup {
 public:
  virtual ~HostGroup() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  // Piece r of `data`, of `bytes` bytes, comes from rank r.
  virtual void AllGather(char* data, int64_t bytes) = 0;
  // Piece r of `from` goes to rank r, as piece rank() of its `to`.
  virtual void AllToAll(const char* from, char* to, int64_t bytes) = 0;
  // `data` comes from rank 0.
  virtual void Broadcast(char* data, int64_t bytes) = 0;
  // Called several times in a second while no other function runs. Throws if a rank has failed.
  virtual void Look() = 0;
  // Ends the calls of the other ranks with an error.
  virtual void Abort(const std::string& why) noexcept = 0;
  // Communicator::SetLastWords; called by any thread.
  virtual void SetLastWords(const std::string& text) {}
};

// The groups of threads of one process. `names` describes the ranks in errors.
std::vector<std::unique_ptr<HostGroup>> MakeThreadGroups(const std::vector<std::string>& names);

// The group of `size` processes of one machine that give one name, through memory that they share.
// Waits until all of them have called this. Two groups must not have the same name at a time.
std::unique_ptr<HostGroup> JoinProcessGroup(const std::string& name, int size, int rank);

// Seconds after which a rank that others wait for counts as failed: CAFFE_RANK_TIMEOUT, 600 by
// default.
int RankTimeout();

}  // namespace caffe
