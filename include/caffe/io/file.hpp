#pragma once

#include <string>
#include <string_view>

namespace caffe {

// Reads a whole file. Throws if it is missing, is a folder, or cannot be read.
std::string ReadFile(const std::string& path);

// A file that appears under its name only when it is complete: the bytes go to a temporary file in
// the same folder; Commit flushes it to the disk, renames it and flushes the folder. Until then,
// and after an error, an existing file is unchanged. A symbolic link is followed; a device or pipe
// is written directly.
//
// The temporary file is called <file>.tmp.HOST.PID.N, with a hash of the host's name. The first
// file that a process writes in a folder removes those that processes of this host have left there:
// a process that was killed. The lock on a temporary file shows that its process still runs.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // Removes the temporary file if it was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::string_view bytes);
  // Flushes the file to the disk and closes it, so that Commit can only fail to rename it. Files
  // that belong together are finished before the first one is committed.
  void Finish();
  void Commit();

  const std::string& path() const { return path_; }
  // For libraries that write through a descriptor or by name.
  int descriptor() const { return descriptor_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  std::string path_;
  std::string temporary_;  // equal to path_ if the file is written directly
  int descriptor_ = -1;
  int lock_ = -1;  // holds the lock after Finish
  bool finished_ = false, committed_ = false;
};

// Removes the temporary files of a folder whose processes have ended on this host. Returns how many.
int RemoveLeftovers(const std::string& folder);

void WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace caffe
