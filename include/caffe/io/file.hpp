#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace caffe {

// Throws if a path holds a zero byte: the system would take the part before it, which is the path
// of another file.
void CheckPath(const std::string& path);

// A file or a pipe that is open for reading. Throws if it is missing, is a folder or a device, or
// cannot be opened. Opening does not wait for a program that writes to the pipe.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  // -1: it is a pipe, which has no size and can be read once.
  int64_t size() const { return size_; }
  bool is_pipe() const { return size_ < 0; }
  // Reads the next bytes; 0 at the end. Waits for those of a pipe: 3 s until a program opens it,
  // then 60 s for each part.
  size_t Read(char* target, size_t bytes);

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = -1;
  bool begun_ = false;
};

// The most that is read from a pipe, which may never end, where a file has no smaller limit.
constexpr int64_t kMostPiped = int64_t{1} << 28;

// Reads a whole file, or a pipe to its end. Throws if it has more than `most` bytes; the default is
// kMostPiped for a pipe, and no limit for a file. `check` gets the first 64 KiB, or all if there
// are fewer, before the rest is read, so that it can refuse a file of another kind.
std::string ReadFile(const std::string& path, int64_t most = -1,
                     const std::function<void(std::string_view head)>& check = nullptr);
std::string ReadFile(InputFile* file, int64_t most,
                     const std::function<void(std::string_view head)>& check = nullptr);

// A file that appears under its name only when it is complete: the bytes go to a temporary file in
// the same folder; Commit flushes it to the disk, renames it and flushes the folder. Until then,
// and after an error, an existing file is unchanged. A symbolic link is followed; a device or pipe
// is written directly.
//
// The temporary file is called <file>.tmp.HOST.PID.N, with a hash of the host's name and the
// beginning of a long file name. The first file that a process writes in a folder removes those
// that processes of this host have left there: a process that was killed. The lock on a temporary
// file shows that its process still runs.
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
  // Commits files that belong together. After an error none of them has its name, and files that
  // they had replaced are back.
  static void CommitTogether(std::initializer_list<AtomicFile*> files);

  const std::string& path() const { return path_; }
  // For libraries that write through a descriptor or by name.
  int descriptor() const { return descriptor_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  void Rename();
  // Gives the file that Rename replaces, if there is one, a second name.
  void KeepOlder();
  void ForgetOlder();
  // Undoes Rename.
  void BringBackOlder();

  std::string path_;
  std::string temporary_;  // equal to path_ if the file is written directly
  std::string older_;  // the second name of the file that this one replaces; empty if it has none
  int descriptor_ = -1;
  int lock_ = -1;          // holds the lock after Finish
  bool replaces_ = false;  // a file that has no second name
  bool finished_ = false, committed_ = false;
};

// A folder that appears under its name only when it is complete. Its temporary folder is called as
// an AtomicFile's temporary file, and removed as such. Throws if the path exists.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::string& path);
  // Removes the temporary folder if it was not committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Its files must have been flushed to the disk.
  void Commit();

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  std::string path_, temporary_;
  int lock_ = -1;
};

// Removes the temporary files and folders of a folder whose processes have ended on this host.
// Returns how many.
int RemoveLeftovers(const std::string& folder);

void WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace caffe
