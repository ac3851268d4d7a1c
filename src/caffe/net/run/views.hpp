#pragma once

#include "caffe/net/wiring.hpp"

namespace caffe {

// Keeps NumPy views of a net's blobs and parameters current. A view may be read and written between
// two calls of the net. So the data of a live view count as written before each call, and their
// host copies are updated after it.
class Views {
 public:
  explicit Views(const Wiring& wiring) : wiring_(wiring) {}
  void TakeData() const;
  void TakeDiffs() const;
  // Before a forward of nodes `first` to `last`. A blob that a whole forward writes before it reads
  // is not uploaded just because a view of it exists: reading an output in every iteration would
  // otherwise cost an upload each time. A blob that is not stored is not made for being
  // overwritten.
  void ForgetOverwritten(int first, int last, bool whole) const;
  void Update() const;
  // A blob of which there is a live view; null if there is none.
  const BlobBase* Viewed() const;

 private:
  const Wiring& wiring_;
};

}  // namespace caffe
