#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace caffe {

// The event at a call of the system that changes a file.
enum class Fault {
  kNone,
  kKill,      // SIGKILL comes before the call, or after half of the bytes of a write
  kFullDisk,  // this call and later ones that need space fail with ENOSPC, a write after half its bytes
  kFails,  // this call alone fails with ENOSPC
};

// Counts the calls of this process that change files below a folder: creating, writing, flushing,
// renaming, removing. The libraries' calls (HDF5, LMDB, SQLite, protobuf) are counted, too: this
// program has functions of these names, which the libraries then call instead of the system's. At
// call number `step`, from 0, the fault happens. One object at a time; a forked child has its own.
class FileChanges {
 public:
  explicit FileChanges(const std::string& folder, Fault fault = Fault::kNone, int64_t step = 0);
  ~FileChanges();
  FileChanges(const FileChanges&) = delete;
  FileChanges& operator=(const FileChanges&) = delete;

  int64_t count() const;
  // The call that had the fault, for messages; empty if there was none.
  std::string fault_at() const;
};

// Runs `work` in a forked child, with a SIGKILL at the step. Returns whether the child was killed.
// Fails if it ends in another way than this or with exit status 0.
bool KilledAt(const std::string& folder, int64_t step, const std::function<void()>& work);

}  // namespace caffe
