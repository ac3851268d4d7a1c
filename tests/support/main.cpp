#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "support/kernel_coverage.hpp"

// Tests never touch the user's caches: without the folders that ctest names, private ones are used.
int main(int argc, char** argv) {
  const auto folder = std::filesystem::path(CAFFE_TEST_CACHE);
  std::filesystem::create_directories(folder / "pocl");
  setenv("CAFFE_CACHE_DIR", (folder / "programs").c_str(), 0);
  setenv("POCL_CACHE_DIR", (folder / "pocl").c_str(), 0);
  testing::InitGoogleTest(&argc, argv);
  std::string tests = std::filesystem::path(argv[0]).filename().string();
  if (tests.starts_with("test_")) tests = tests.substr(5);
  const bool all = GTEST_FLAG_GET(filter) == "*";
  if (all) caffe::BeginKernelCoverage(tests);
  const int status = RUN_ALL_TESTS();
  const std::string missing = all ? caffe::MissingLaunches(tests) : "";
  if (!missing.empty()) {
    std::cerr << "[  FAILED  ] kernels that no test in tests/" << tests << " launches:\n"
              << missing;
  }
  return missing.empty() ? status : 1;
}
