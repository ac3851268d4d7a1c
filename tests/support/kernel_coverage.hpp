#pragma once

#include <filesystem>
#include <string>

namespace caffe {

// Starts to record launches if the tests of this folder have to launch every kernel of some bodies.
void BeginKernelCoverage(const std::string& folder);

// To be called after all tests of the folder have run in this process. Returns one line for each
// kernel of its bodies that a device did not launch in any type, or that was not launched in one of
// its types on any device. Kernels of operators count as launched wherever they ran. Empty if no
// launch is missing.
std::string MissingLaunches(const std::string& folder);

// For folders whose tests run in several processes (shards). Each shard first removes its old notes
// and at its end notes its launches. Afterwards MissingLaunchesOfShards returns the missing
// launches of all shards together and removes the notes. If shards have left no notes, `absent`
// lists them, and the result is empty.
void ForgetLaunchesOfShard(const std::filesystem::path& notes, const std::string& folder,
                           int shard);
void NoteLaunchesOfShard(const std::filesystem::path& notes, const std::string& folder, int shard);
std::string MissingLaunchesOfShards(const std::filesystem::path& notes, const std::string& folder,
                                    int shards, std::string* absent);

}  // namespace caffe
