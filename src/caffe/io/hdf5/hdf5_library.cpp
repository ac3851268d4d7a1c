#include "hdf5_library.hpp"

#include <pthread.h>

#include <new>

namespace caffe {
namespace {

std::recursive_mutex& Mutex() {
  static std::recursive_mutex* const mutex = [] {
    // The child's only thread has another id than the thread that locked the mutex.
    pthread_atfork([] { Mutex().lock(); }, [] { Mutex().unlock(); },
                   [] { new (&Mutex()) std::recursive_mutex; });
    return new std::recursive_mutex;
  }();
  return *mutex;
}

}  // namespace

Hdf5Turn::Hdf5Turn() : lock_(Mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string Hdf5Reason() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* error, void* text) {
        if (depth == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
        return herr_t{0};
      },
      &reason);
  H5Eclear2(H5E_DEFAULT);
  // "file write failed: time = …, error message = 'No space left on device', …", in several lines.
  const std::string quoted = "error message = '";
  const size_t begin = reason.find(quoted);
  if (begin != std::string::npos) {
    reason = reason.substr(begin + quoted.size());
    reason = reason.substr(0, reason.find('\''));
  }
  return reason.empty() ? "" : " (" + reason + ")";
}

}  // namespace caffe
