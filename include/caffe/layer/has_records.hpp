#pragma once

#include <cstdint>

namespace caffe {

// A data layer that knows how many records it has.
class HasRecords {
 public:
  static constexpr int64_t kEndless = -1, kUnknown = -2;

  virtual ~HasRecords() = default;
  // The number of records that it reads before it begins again. kEndless: it makes data.
  virtual int64_t records() const = 0;
  // Takes what the caller has given to another layer of this type, such as arrays.
  virtual void TakeRecordsOf(const HasRecords&) {}
};

}  // namespace caffe
