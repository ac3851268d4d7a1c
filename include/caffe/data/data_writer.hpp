#pragma once

#include <string>
#include <string_view>

namespace caffe {

class Datum;

// Writes a new database. It appears under its name only in Finish: what is destroyed before that,
// after an error say, leaves nothing behind.
class DataWriter {
 public:
  virtual ~DataWriter() = default;

  // Records are read in the order of their keys, as bytes. Throws for a key that was there.
  void Put(const std::string& key, const Datum& datum);
  virtual void Put(const std::string& key, std::string_view value) = 0;
  // Flushes to the disk and closes. No Put afterwards.
  virtual void Finish() = 0;
};

}  // namespace caffe
