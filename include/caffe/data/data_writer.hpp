#pragma once

#include <string>
#include <string_view>

namespace caffe {

class Datum;

// Writes a new database. It appears under its name only in Finish; if the writer is destroyed
// earlier, for example after an error, nothing is left.
class DataWriter {
 public:
  virtual ~DataWriter() = default;

  // Records are read in the order of their keys, as bytes. Throws for a duplicate key.
  void Put(const std::string& key, const Datum& datum);
  virtual void Put(const std::string& key, std::string_view value) = 0;
  // Flushes to the disk and closes. Put must not be called afterwards.
  virtual void Finish() = 0;
};

}  // namespace caffe
