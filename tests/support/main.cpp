#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

// Tests never touch the user's caches: without the folders that ctest names, private ones are used.
int main(int argc, char** argv) {
  const auto folder = std::filesystem::path(CAFFE_TEST_CACHE);
  std::filesystem::create_directories(folder / "pocl");
  setenv("CAFFE_CACHE_DIR", (folder / "programs").c_str(), 0);
  setenv("POCL_CACHE_DIR", (folder / "pocl").c_str(), 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
