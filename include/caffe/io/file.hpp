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
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // Removes the temporary file if it was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::string_view bytes);
  void Commit();

  // For libraries that write through a descriptor or by name.
  int descriptor() const { return descriptor_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  std::string path_;
  std::string temporary_;  // equal to path_ if the file is written directly
  int descriptor_ = -1;
  bool committed_ = false;
};

void WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace caffe
