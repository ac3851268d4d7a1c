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
  // A blob that a whole forward writes before it reads is not uploaded just because a view of it
  // exists: reading an output in every iteration would otherwise cost an upload each time.
  void ForgetOverwritten() const;
  void Update() const;

 private:
  const Wiring& wiring_;
};

}  // namespace caffe
