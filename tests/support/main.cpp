#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include "support/kernel_coverage.hpp"

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE of ctest

int Report(const std::string& tests, const std::string& missing) {
  if (missing.empty()) return 0;
  std::cerr << "[  FAILED  ] kernels that no test in tests/" << tests << " launches:\n" << missing;
  return 1;
}

}  // namespace

// Tests never touch the user's caches: without the folders that ctest names, private ones are used.
int main(int argc, char** argv) {
  const auto folder = std::filesystem::path(CAFFE_TEST_CACHE);
  std::filesystem::create_directories(folder / "pocl");
  setenv("CAFFE_CACHE_DIR", (folder / "programs").c_str(), 0);
  setenv("POCL_CACHE_DIR", (folder / "pocl").c_str(), 0);
  // One form of each kernel instead of one for each shape of its launches: PoCL compiles for longer
  // than the kernels of tests run. tests/python runs the forms for shapes.
  setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
  testing::InitGoogleTest(&argc, argv);
  std::string tests = std::filesystem::path(argv[0]).filename().string();
  if (tests.starts_with("test_")) tests = tests.substr(5);
  const std::filesystem::path notes = folder / "launches";
  // test_<folder> --kernels-of-shards=4 runs after all shards and checks that every kernel was
  // launched.
  constexpr std::string_view kShards = "--kernels-of-shards=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kShards)) {
    const int shards = std::stoi(argv[1] + kShards.size());
    std::string absent;
    const std::string missing = caffe::MissingLaunchesOfShards(notes, tests, shards, &absent);
    if (!absent.empty()) {
      std::cerr << "not checked: shard " << absent << " of " << shards
                << " did not run to its end\n";
      return kSkipped;
    }
    return Report(tests, missing);
  }
  const bool all = GTEST_FLAG_GET(filter) == "*";
  const char* const shard = std::getenv("GTEST_SHARD_INDEX");
  if (shard != nullptr) caffe::ForgetLaunchesOfShard(notes, tests, std::atoi(shard));
  if (all) caffe::BeginKernelCoverage(tests);
  const int status = RUN_ALL_TESTS();
  if (!all) return status;
  if (shard != nullptr) {
    caffe::NoteLaunchesOfShard(notes, tests, std::atoi(shard));
    return status;
  }
  return std::max(status, Report(tests, caffe::MissingLaunches(tests)));
}
