#pragma once

#include <cstdint>
#include <string>

namespace caffe {

class Datum;

// The records of a database in order. Several sources may read one database; each may be used by
// one thread at a time, not always the same.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // Reads the next record and advances. Returns false, and changes nothing, after the last one.
  // Throws if the record is not a Datum.
  virtual bool Next(Datum* datum) = 0;
  // Advances without reading the record; returns false after the last one.
  virtual bool Skip() = 0;
  // Returns to the first record.
  virtual void Rewind() = 0;
  // Index of the record that Next reads.
  virtual int64_t position() const = 0;
  // The number of records; it does not change.
  virtual int64_t count() const = 0;
  // The key of the last record, for messages; unprintable bytes are written as \x07.
  virtual std::string key() const = 0;
};

}  // namespace caffe
