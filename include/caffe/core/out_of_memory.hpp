#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "caffe/core/error.hpp"

namespace caffe {

// The host or a device does not have enough memory. Callers add context: the file, the layer or the
// blob that the memory is for, and the need of the whole net. In Python: caffe.OutOfMemory, a
// MemoryError.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// Runs `work`. If the C++ library has no memory for it, the error names `what`, for example a file:
// a text, or, where making one would cost each call something, a function that returns it.
template <class What, class Work> decltype(auto) NamingMemory(const What& what, const Work& work) {
  const auto text = [&]() -> std::string {
    if constexpr (std::is_invocable_v<const What&>) {
      return what();
    } else {
      return what;
    }
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(text() + ": out of memory");
  } catch (const std::length_error&) {  // more elements than any memory can hold
    throw OutOfMemory(text() + ": out of memory");
  }
}

// In a handler of `catch (...)`: throws the exception again with `context` before its text. An
// OutOfMemory remains one, and missing memory of the C++ library becomes one.
[[noreturn]] void RethrowIn(const std::string& context);

}  // namespace caffe
