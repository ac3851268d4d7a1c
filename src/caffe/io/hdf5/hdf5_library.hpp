#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace caffe {

// Locks the library, since most builds of HDF5 are not thread-safe, and disables its error output.
// fork() waits until no other thread has a turn, so that the library works in the child.
class Hdf5Turn {
 public:
  Hdf5Turn();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

// HDF5's description of the last failure, from the innermost call, in brackets.
std::string Hdf5Reason();

// Owns an identifier and closes it.
class Hdf5Handle {
 public:
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace caffe
