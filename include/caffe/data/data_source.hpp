#pragma once

#include <cstdint>
#include <string>

namespace caffe {

class Datum;

// Records of a database, read one after another from first to last. Several sources may read one
// database, each used by one thread at a time (not always the same one).
class DataSource {
 public:
  virtual ~DataSource() = default;

  // Reads the record at the cursor and moves on; false, and no change, behind the last one. Throws
  // if the record is no Datum.
  virtual bool Next(Datum* datum) = 0;
  // Moves on without looking into the record; false behind the last one.
  virtual bool Skip() = 0;
  // Back to the first record.
  virtual void Rewind() = 0;
  // Number of the record that Next reads, from 0.
  virtual int64_t position() const = 0;
  // How many records there are; -1 if that is not known.
  virtual int64_t count() const = 0;
  // The key of the record that was read last, for messages: odd bytes are written \x07.
  virtual std::string key() const = 0;
};

}  // namespace caffe
