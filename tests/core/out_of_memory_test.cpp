#include "caffe/core/out_of_memory.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace caffe {
namespace {

template <class Exception> std::string TextOf(const std::function<void()>& work) {
  try {
    try {
      work();
    } catch (...) {
      RethrowIn("a file");
    }
  } catch (const Exception& error) {
    return typeid(error) == typeid(Exception) ? error.what() : "another type";
  } catch (...) {
  }
  return "another type";
}

TEST(OutOfMemoryTest, ContextIsAddedToEveryErrorOfTheLibraryAndToMissingMemory) {
  EXPECT_EQ(TextOf<Error>([] { throw Error("no"); }), "a file: no");
  EXPECT_EQ(TextOf<OutOfMemory>([] { throw OutOfMemory("full"); }), "a file: full");
  EXPECT_EQ(TextOf<OutOfMemory>([] { throw std::bad_alloc(); }), "a file: out of memory");
  EXPECT_EQ(TextOf<std::runtime_error>([] { throw std::runtime_error("x"); }), "x");
}

}  // namespace
}  // namespace caffe
