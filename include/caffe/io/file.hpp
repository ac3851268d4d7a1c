#pragma once

#include <string>
#include <string_view>

namespace caffe {

// The bytes of a file. Throws if it is missing, a folder, or cannot be read.
std::string ReadFile(const std::string& path);

// A file that appears under its name only when it is complete: the bytes go to a temporary file in
// the same folder; Commit flushes it to the disk, renames it and flushes the folder. Until then,
// and after any error, an older file of that name stays as it was. A symbolic link keeps pointing
// where it does; a device or pipe is written directly.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // Without a commit the temporary file is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::string_view bytes);
  void Commit();

  // For libraries that write by descriptor or by name.
  int descriptor() const { return descriptor_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  std::string path_;
  std::string temporary_;  // equal to path_ where the file is written directly
  int descriptor_ = -1;
  bool committed_ = false;
};

void WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace caffe
